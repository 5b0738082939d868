package main

import (
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/snapshot"
)

func verifyCommand(a *app) *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use:   "verify [--repair] [STORE]",
		Short: "Check everything stored, byte for byte",
		Long: `Reads everything in the store and checks it against its hashes; with STORE, one
that need not be mounted. When it finds damage it lists what is damaged with the
paths and snapshots that need it, and exits with status 7.

--repair works on a STORE that is not mounted: it rebuilds the index from the
packs and sets damaged records aside.`,
		Args: args(0, 1, "at most one STORE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			r, err := a.verify(cmd, argv, repair)
			if r == nil {
				return err
			}
			if !a.json {
				a.printReport(r)
				return err
			}
			if perr := a.printJSON(r); perr != nil {
				return perr
			}
			if err != nil {
				return fail.Quiet(fail.KindOf(err))
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "rebuild the index from the packs, set damaged records aside")
	return cmd
}

// verify asks the daemon, when the store has one, or does it here.
func (a *app) verify(cmd *cobra.Command, argv []string, repair bool) (*snapshot.Report, error) {
	ask := func(do func(r request, result any) error) (*snapshot.Report, error) {
		var report snapshot.Report
		err := do(request{op: "verify", args: api.Verify{Repair: repair}}, &report)
		if err != nil && report.OK() {
			return nil, err
		}
		return &report, err
	}
	if len(argv) == 0 {
		return ask(func(r request, result any) error { return a.askHere(cmd.Context(), r, result) })
	}
	store, err := a.abs(argv[0])
	if err != nil {
		return nil, err
	}
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, err
	}
	store = locate.Resolve(mounts, store)
	if p, err := locate.Find(mounts, store); err == nil { // a mount point does as well
		return ask(func(r request, result any) error { return a.ask(cmd.Context(), p, r, result) })
	}
	if c, err := control.Dial(store); err == nil {
		defer c.Close()
		return ask(func(r request, result any) error { return a.askOn(cmd.Context(), c, nil, r, result) })
	}
	bar := a.newProgress()
	defer bar.done()
	return daemon.VerifyStore(cmd.Context(), store, repair, bar.show)
}

func (a *app) printReport(r *snapshot.Report) {
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
		path := f.Path
		if path == "" {
			path = "."
		}
		a.printf("  %s\n", quote(path))
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
		a.printf("repaired: %d objects, %d mended, %d set aside\n", m.Objects, m.Mended, m.Quarantined)
	}
	a.printf("verified %d objects, %s: %s\n", r.Objects, bytesText(r.Bytes), state)
}
