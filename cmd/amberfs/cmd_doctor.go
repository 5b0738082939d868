package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/doctor"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
)

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Examine whether amberfs can work here",
		Long: `Examines this system: /dev/fuse, the kernel and what newer ones give, fusermount3, user
namespaces, AppArmor, seccomp, free space, inotify's limits, agents' hooks and their log,
mounts whose daemons do not answer, and stores in use. It changes nothing.

Each line has the state (ok, warning or failed), and a fault has its remedy. The exit
status is 0 unless a check failed.`,
		Example: `  amberfs doctor
  amberfs doctor --json > report.json`,
		Args: argumentCountCheck(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return examineSystem(cmd.Context(), a) },
	}
}

// examineSystem prints the result of each check.
func examineSystem(ctx context.Context, a *app) error {
	dir, err := a.commandDir()
	if err != nil {
		return err
	}

	b := thisBuild()
	r := doctor.Examine(ctx, doctor.Subject{Dir: dir, Version: b.Version, System: b.System})
	failed := 0
	var rows [][]string
	for _, c := range r.Checks {
		rows = append(rows, []string{c.State, c.Name, gitquote.EscapeControls(c.Finding, " ")})
		if c.Remedy != "" {
			rows = append(rows, []string{"", "", "remedy: " + gitquote.EscapeControls(c.Remedy, " ")})
		}
		if c.State == doctor.Failed {
			failed++
		}
	}

	if !r.OK {
		err = errs.Fail(errs.Failed, "%s failed", plural(failed, "check", "checks"))
	}
	return a.printFailed(r, err, func() { printTable(a.stdout, rows) })
}
