package main

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/repair"
)

func verifyCommand(a *app) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [--repair] [STORE]",
		Short: "Check everything in a store",
		Long: `Checks everything in the mount's store, or in STORE, which is not mounted, against its
hashes. If there is damage, it lists the affected paths and snapshots, and exits with
status 7.

--repair needs a STORE that is not mounted.`,
		Example: `  amberfs verify
  amberfs verify --repair ~/project.store`,
		Args: args(0, 1, "at most one STORE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			r, err := a.verify(cmd, argv, repair)
			if r == nil {
				return err
			}
			return a.printFailed(r, err, func() { a.printReport(r) })
		},
	}

	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the index, and move damaged records to STORE/quarantine")
	return cmd
}

// verify asks the daemon of a mounted store to verify it, and verifies another store in this process.
func (a *app) verify(cmd *cobra.Command, argv []string, mend bool) (*repair.Report, error) {
	ctx := cmd.Context()
	store, err := a.abs(cmp.Or(strings.Join(argv, ""), a.dir))
	if err != nil {
		return nil, err
	}

	mounts, err := locate.Mounts()
	if err != nil {
		return nil, err
	}

	store = locate.Resolve(mounts, store)
	var c *client.Client

	if _, ferr := locate.Find(mounts, store); ferr == nil || len(argv) == 0 { // the argument may be a mount point
		p, err := a.locationOf(store)
		if err != nil {
			return nil, err
		}

		store = p.Store
		if c, err = a.open(ctx, p); err != nil {
			return nil, err
		}
	} else if c, err = client.Open(ctx, client.Target{Store: store, Command: a.command}); err != nil {
		bar := a.newProgress()
		defer bar.done()
		return daemon.VerifyStore(ctx, store, mend, bar.show)
	}
	defer c.Close()

	if mend {
		return nil, errs.Fail(errs.Busy, "a mounted store cannot be repaired").
			WithHint("unmount it, then run `amberfs verify --repair %s`", store)
	}

	bar := a.newProgress()
	defer bar.done()

	var report repair.Report
	err = c.Do(ctx, service.Verify{}, client.Exchange{Progress: bar.show}, &report)
	if err != nil && report.OK() {
		return nil, err
	}

	return &report, err
}

func (a *app) printReport(r *repair.Report) {
	for _, d := range r.Damage {
		a.printf("damaged: %s\n", d.What)
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
