package main

import (
	"cmp"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/repair"
)

func verifyCommand(a *app) *cobra.Command {
	var repair, forgotten bool
	cmd := &cobra.Command{
		Use:   "verify [--repair|--forgotten] [STORE]",
		Short: "Check everything in a store",
		Long: `Checks everything in the mount's store, or in STORE, which is not mounted, against its
hashes. If there is damage, it lists the affected paths and snapshots, and exits with
status 7.

--repair needs a STORE that is not mounted. --forgotten searches all bytes of the store for
what "amberfs forget" removed, and exits with status 7 if a snapshot, or anything that no
present file has, contains it.`,
		Example: `  amberfs verify
  amberfs verify --repair ~/project.store`,
		Args: argumentCountCheck(0, 1, "at most one STORE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if forgotten {
				return verifyForgotten(a, cmd, argv, repair)
			}
			r, err := verifyStore(a, cmd, argv, repair)
			if r == nil {
				return err
			}
			return a.printFailed(r, err, func() { printReport(a, r) })
		},
	}

	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the index, and move damaged records to STORE/quarantine")
	cmd.Flags().BoolVar(&forgotten, "forgotten", false, "search for what was forgotten")
	return cmd
}

// verifyForgotten searches a store for forgotten contents. The daemon searches a mounted store, and this process
// searches a store that is not mounted.
func verifyForgotten(a *app, cmd *cobra.Command, argv []string, repair bool) error {
	if repair {
		return errs.Fail(errs.Invalid, "--repair and --forgotten cannot be used together")
	}

	c, store, err := openStoreClient(cmd.Context(), a, argv)
	if err != nil {
		return err
	}

	var proof *forget.Proof
	if c == nil {
		proof, err = daemon.ProveStore(cmd.Context(), store)
	} else {
		defer c.Close()
		proof = new(forget.Proof)
		err = c.Do(cmd.Context(), service.VerifyForgotten{}, client.Streams{}, proof)
	}
	if proof == nil || err != nil && proof.OK() {
		return err
	}

	return a.printFailed(proof, err, func() { a.printf("%s", service.ProofText(proof)) })
}

// verifyStore verifies a store. The daemon verifies a mounted store, and this process verifies a store that is not
// mounted.
func verifyStore(a *app, cmd *cobra.Command, argv []string, repairs bool) (*repair.Report, error) {
	ctx := cmd.Context()
	c, store, err := openStoreClient(ctx, a, argv)
	if err != nil {
		return nil, err
	}
	if c == nil {
		bar := a.newProgress()
		defer bar.done()
		return daemon.VerifyStore(ctx, store, repairs, bar.show)
	}
	defer c.Close()

	if repairs {
		return nil, errs.Fail(errs.Busy, "a mounted store cannot be repaired").
			WithHint("unmount it, then run `amberfs verify --repair %s`", store)
	}

	bar := a.newProgress()
	defer bar.done()

	var report repair.Report
	err = c.Do(ctx, service.Verify{}, client.Streams{Progress: bar.show}, &report)
	if err != nil && report.OK() {
		return nil, err
	}

	return &report, err
}

// openStoreClient returns a client for a store, and the path of the store. argv has the path of the store or of its
// mount point. If argv is empty, openStoreClient uses the mount of the working directory. The client is nil if the store
// is not mounted.
func openStoreClient(ctx context.Context, a *app, argv []string) (c *client.Client, store string, err error) {
	if store, err = a.absPath(cmp.Or(strings.Join(argv, ""), a.dir)); err != nil {
		return nil, "", err
	}

	mounts, err := locate.Mounts()
	if err != nil {
		return nil, "", err
	}

	store = locate.Resolve(mounts, store)
	if _, ferr := locate.Find(mounts, store); ferr == nil || len(argv) == 0 {
		p, err := a.locationOf(store)
		if err != nil {
			return nil, "", err
		}
		c, err = a.openClient(ctx, p)
		return c, p.Store, err
	}

	if c, err = client.Open(ctx, client.Target{Store: store, Command: a.command}); err != nil {
		return nil, store, nil
	}

	return c, store, nil
}

func printReport(a *app, r *repair.Report) {
	for _, d := range r.Damage {
		a.printf("damaged: %s\n", d.Description)
	}

	last := ""

	for _, f := range r.Affected {
		where := "in snapshot " + f.Snapshot + " of " + f.Workspace
		if f.Snapshot == "" {
			where = "in the present state of " + f.Workspace
		}

		if where != last {
			a.printf("%s:\n", where)
			last = where
		}

		a.printf("  %s\n", quote(cmp.Or(f.Path, ".")))
	}

	if n := r.LostChanges; n > 0 {
		a.printf("lost: %s behind the damage in the journal\n", plural(int(n), "change", "changes"))
	}

	state := "no damage"
	if n := len(r.Damage); n > 0 {
		state = plural(n, "damaged record", "damaged records")
	} else if n := len(r.Affected); n > 0 {
		state = plural(n, "path", "paths") + " of which a part is lost"
	}

	if m := r.Repaired; m != nil {
		a.printf("repaired: %d objects, %d restored, %d set aside\n", m.Objects, m.Mended, m.Quarantined)
	}

	a.printf("verified %d objects, %s: %s\n", r.Objects, service.BytesText(r.Bytes), state)
}
