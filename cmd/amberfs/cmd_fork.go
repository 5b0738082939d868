package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

func forkCommand(a *app) *cobra.Command {
	var req service.Fork
	var end service.DeleteFork
	var ends bool
	cmd := &cobra.Command{
		Use:   "fork [SNAPSHOT|label:KEY=VALUE|REMOTE@SNAPSHOT] NAME [--ttl 1h] [--as ACTOR]",
		Short: "Create or delete a fork",
		Long: `Creates the fork NAME: a writable copy of SNAPSHOT, or of the present state, at
.forks/NAME. Neither side sees the other's writes.

--discard also deletes the forks in it. --delete is refused if there are any.`,
		Example: `  amberfs fork v1 try-left
  amberfs fork try-right
  amberfs fork label:task=17 again --ttl 1h
  amberfs fork team@start box-18
  amberfs fork --delete try-right`,
		Args: args(1, 2, "perhaps a SNAPSHOT, and a NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if ends && end.Discard || (ends || end.Discard) && req.TTL != "" {
				return fail.New(fail.Usage, "--delete, --discard and --ttl exclude each other")
			}
			if ends || end.Discard {
				if len(argv) != 1 {
					return fail.New(fail.Usage, "amberfs fork --delete and --discard take one NAME").WithHint("see `amberfs help fork`")
				}
				end.Name = argv[0]
				return show(a, cmd, end, func(done service.DeletedFork) { a.printf("%s\n", deletedForkText(&done)) })
			}
			req.Name, req.Snapshot = argv[len(argv)-1], strings.Join(argv[:len(argv)-1], "")
			return show(a, cmd, req, func(made service.Forked) { a.printf("fork %s created: %s\n", made.Name, quote(made.Path)) })
		},
	}
	cmd.Flags().BoolVarP(&ends, "delete", "d", false, "delete the fork NAME; its last state becomes a snapshot")
	cmd.Flags().BoolVar(&end.Discard, "discard", false, "delete the fork NAME and keep nothing")
	cmd.Flags().BoolVar(&end.Force, "force", false, "with --delete or --discard, also if programs run in it")
	cmd.Flags().StringVar(&req.TTL, "ttl", "", "delete the fork after this `TIME`: 30m, 1h, 7d")
	cmd.Flags().StringVar(&req.As, "as", "", "changes from a virtual machine or gVisor are by this `ACTOR`, not by NAME")
	return cmd
}

func deletedForkText(done *service.DeletedFork) string {
	if done.Snapshot == "" {
		return fmt.Sprintf("fork %s deleted; nothing was kept", done.Name)
	}
	return fmt.Sprintf("fork %s deleted; its last state is the snapshot %s", done.Name, done.Snapshot)
}

func claimCommand(a *app) *cobra.Command {
	var req service.Claim
	cmd := &cobra.Command{
		Use:   "claim LABEL [--from SNAPSHOT|REMOTE@SNAPSHOT] [--ttl 1h]",
		Short: "Get the fork with a label, or create it",
		Long: `Prints the path of the fork LABEL, and how it was found:

  resumed    the fork existed
  snapshot   a new fork, from the last state of an earlier fork with this label
  fresh      a new fork, from --from or from the present state

Concurrent claims of a label get the same fork. REMOTE@SNAPSHOT is resolved at most once
a minute.`,
		Example: `  cd "$(amberfs claim box-17 --from start --ttl 1h --json | jq -r .path)"`,
		Args:    args(1, 1, "a LABEL"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Label = argv[0]
			return show(a, cmd, req, func(got service.Claimed) { a.printf("%s\t%s\n", quote(got.Path), got.Tier) })
		},
	}
	cmd.Flags().StringVar(&req.From, "from", "", "begin a new fork with `SNAPSHOT` or REMOTE@SNAPSHOT. Default: the present state")
	cmd.Flags().StringVar(&req.TTL, "ttl", "", "delete the fork after this `TIME` without a claim: 30m, 1h, 7d")
	return cmd
}

func forksCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "forks",
		Short: "List forks",
		Long: `Lists the forks: name, base, age, last actor, snapshots, changed files and the remaining
time to live, separated by tabs.`,
		Example: `  amberfs forks`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var l service.ForkList
			if err := a.askHere(cmd.Context(), service.Forks{}, &l); err != nil {
				return err
			}
			return a.print(l.Forks, func() { a.printRows(forkRows(l.Forks)) })
		},
	}
}

func forkRows(forks []service.ForkState) [][]string {
	if len(forks) == 0 {
		return [][]string{{"no forks"}}
	}
	var rows [][]string
	for _, f := range forks {
		changed := plural(f.Changed, "file", "files") + " changed"
		if f.More {
			changed = "at least " + changed
		}
		ttl := "-"
		if f.TTL != "" {
			ttl = "ttl " + f.TTL
		}
		rows = append(rows, []string{f.Name, cmp.Or(f.Base, "-"), humanize.Time(f.Created), cmp.Or(quote(f.Last), "-"), plural(f.Snapshots, "snapshot", "snapshots"), changed, ttl})
	}
	return rows
}

func mergeCommand(a *app) *cobra.Command {
	var req service.Merge
	cmd := &cobra.Command{
		Use:     "merge FORK [--ours|--theirs] [--dry-run]",
		Aliases: []string{"promote"},
		Short:   "Bring a fork's changes into the workspace",
		Long: `Merges what the fork changed since its base into its parent. Text that both changed is
merged by lines, as git merge does. Conflicts are listed, and then nothing is changed.

"amberfs undo" undoes the merge. The fork stays.`,
		Example: `  amberfs merge idea
  amberfs merge idea --theirs`,
		Args: args(1, 1, "one FORK"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Fork = argv[0]
			return show(a, cmd, req, func(done service.Merged) {
				done.Paths = a.listed(done.Paths)
				a.printf("%s", mergedLines(done))
			})
		},
	}
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "keep the workspace's version of conflicting paths")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "take the fork's version of conflicting paths")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "only list what would change")
	return cmd
}

func mergedLines(done service.Merged) string {
	return changedLines("merged", "would merge", done.DryRun, "fork "+done.Fork, done.Changed, done.Paths, 0)
}
