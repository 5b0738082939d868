package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
)

type forgetOptions struct {
	snapshot.ForgetOptions
	file string // the path of a file whose contents are forgotten
	yes  bool
}

func forgetCommand(a *app) *cobra.Command {
	o := &forgetOptions{}
	cmd := &cobra.Command{
		Use:   "forget PATH...|--content FILE|--match RE|--secrets [FLAG]...",
		Short: "Remove contents from all snapshots, and erase their bytes",
		Long: `Removes PATHs from the snapshots of all workspaces, and erases their bytes in the store.
Snapshots keep their names, numbers and times. Their ids change, and the old ids still
work. It cannot be undone.

--content FILE removes files that equal FILE. In other files, * replaces its bytes.
--match RE overwrites what RE matches in a line, or its first group.

Present files stay without --now. Bytes that a remaining file also has are kept, and the
receipt names that file. --remotes sends rewritten snapshots again and removes the old
objects. At a terminal, forget lists what it would remove and asks. Elsewhere it needs
--yes or --dry-run.`,
		Example: `  amberfs forget .env --dry-run
  amberfs forget .env --now --yes
  amberfs forget --content ~/id_ed25519
  amberfs forget --remotes --yes
  amberfs forget --match 'password=(\S+)' --in v1..v9`,
		RunE: func(cmd *cobra.Command, argv []string) error { return runForget(cmd.Context(), a, *o, argv) },
	}

	cmd.Flags().StringVar(&o.file, "content", "", "forget the bytes of `FILE`")
	cmd.Flags().StringArrayVar(&o.Match, "match", nil, "forget what this regular expression matches: `RE`; repeatable")
	cmd.Flags().BoolVar(&o.Secrets, "secrets", false, "forget keys and passwords of well-known forms")
	cmd.Flags().StringArrayVar(&o.In, "in", nil, "only in these snapshots of the workspace: `SNAPSHOT`, A.. or A..B; repeatable")
	cmd.Flags().BoolVar(&o.Now, "now", false, "also in the present states")
	cmd.Flags().BoolVar(&o.Remotes, "remotes", false, "also on all remotes; alone: what was forgotten before")
	cmd.Flags().BoolVarP(&o.DryRun, "dry-run", "n", false, "only print what would be removed")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")

	return cmd
}

// runForget forgets the paths, and the contents that the options select.
func runForget(ctx context.Context, a *app, o forgetOptions, paths []string) error {
	p, c, err := a.openClientHere(ctx)
	if err != nil {
		return err
	}
	defer c.Close()

	for _, arg := range paths {
		rel, err := workspacePath(p, arg)
		if err != nil {
			return err
		}
		o.Paths = append(o.Paths, rel)
	}

	if o.file != "" {
		if o.Content, err = a.readInput(o.file); err != nil {
			return err
		}
		if len(o.Content) == 0 {
			return errs.Fail(errs.Invalid, "%s is empty", quote(o.file))
		}
	}

	return forgetAfterAsking(ctx, a, c, o.ForgetOptions, o.yes)
}

// forgetAfterAsking forgets, and prints the receipt. Unless yes is set, it first shows the result of a dry run and asks.
func forgetAfterAsking(ctx context.Context, a *app, c *client.Client, o snapshot.ForgetOptions, yes bool) error {
	forgetWith := func(o snapshot.ForgetOptions) (r forget.Receipt, err error) {
		bar := a.newProgress()
		defer bar.done()
		return r, c.Do(ctx, o, client.Streams{Progress: bar.show}, &r)
	}

	if !yes && !o.DryRun {
		if !a.canAsk() {
			return cannotAskError("use --yes, or --dry-run")
		}

		dry := o
		dry.DryRun = true
		r, err := forgetWith(dry)
		if err != nil {
			return err
		}

		fmt.Fprint(a.stderr, service.ReceiptText(&r))
		if confirmed, err := question.AskYesNo(ctx, a.questionTerminal(), "forget this? It cannot be undone. [y/N]: "); err != nil || !confirmed {
			return err
		}
	}

	r, err := forgetWith(o)
	if err != nil {
		return err
	}

	return a.print(r, func() { a.printf("%s", service.ReceiptText(&r)) })
}
