package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

func snapshotCommand(a *app) *cobra.Command {
	var req service.Snapshot
	var noWait, turn bool
	cmd := &cobra.Command{
		Use:   "snapshot [NAME] [-m MESSAGE] [FLAG]...",
		Short: "Take a snapshot",
		Long: `Takes a snapshot named NAME, or cp-N without a NAME. Waits until it is stored, so that
it survives a power cut, and prints its id.`,
		Example: `  amberfs snapshot before-refactor -m "all tests pass"
  amberfs snapshot try-1 --expires 24h --label agent=left`,
		Args: args(0, 1, "at most one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req.Name, req.Wait = strings.Join(argv, ""), !noWait
			if turn {
				req.Kind = snapshot.KindTurn
			}
			return show(a, cmd, req, func(info snapshot.Info) {
				if noWait {
					a.printf("cp-%d\n", info.Seq)
				} else {
					a.printf("snapshot %s created: %s\n", info.Name, info.ID)
				}
			})
		},
	}
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "`MESSAGE` of the snapshot")
	cmd.Flags().StringVar(&req.Expires, "expires", "", "delete it after this `TIME`: 30m, 24h, 7d, 2w, or an RFC 3339 date")
	labelFlag(cmd, &req.Labels, "add the label `KEY=VALUE`; repeatable")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once, and print cp-N")
	cmd.Flags().BoolVar(&turn, "turn", false, "kind turn: an agent's turn, kept as the policy says")
	cmd.Flags().BoolVar(&req.IfChanged, "if-changed", false, "take none if nothing differs from the newest one")
	cmd.Flags().BoolVar(&req.Pinned, "pin", false, "protect it from deletion")
	return cmd
}

// labelFlag adds the flag --label.
func labelFlag(cmd *cobra.Command, labels *map[string]string, usage string) {
	cmd.Flags().Func("label", usage, func(text string) error {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return errors.New("it takes KEY=VALUE")
		}
		if *labels == nil {
			*labels = map[string]string{}
		}
		(*labels)[k] = v
		return nil
	})
}

func showCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a snapshot",
		Long: `Shows everything about a snapshot. NAME can also be cp-N, the first 8 or more digits of
an id, latest, undo or base.`,
		Example: `  amberfs show latest`,
		Args:    args(1, 1, "one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.Show{Name: argv[0]}, func(info snapshot.Info) { printFields(a, infoFields(info)) })
		},
	}
}

func infoFields(i snapshot.Info) [][]string {
	id := i.ID
	if id == "" {
		id = "- (not sealed yet)"
	}
	rows := [][]string{
		{"name", i.Name},
		{"number", fmt.Sprintf("cp-%d", i.Seq)},
		{"id", id},
		{"created", i.Created.Format(time.RFC3339) + " (" + humanize.Time(i.Created) + ")"},
		{"kind", i.Kind},
	}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("parent", i.Parent)
	add("message", service.OneLine(i.Message))
	add("labels", labelText(i.Labels))
	if i.Expires != nil {
		add("expires", i.Expires.Format(time.RFC3339)+" ("+humanize.Time(*i.Expires)+")")
	}
	if i.Pinned {
		add("pinned", "yes")
	}
	add("files", humanize.Comma(i.Files))
	size := bytesText(i.Bytes)
	if i.Sealed {
		size += ", of which " + bytesText(i.UniqueBytes) + " were new"
	}
	add("size", size)
	add("changes", fmt.Sprintf("%d created, %d modified, %d deleted, %d restored",
		i.Counts.Created, i.Counts.Modified, i.Counts.Deleted, i.Counts.Restored))
	by := fmt.Sprintf("user %d, process %d", i.UID, i.PID)
	if i.Command != "" {
		by += ", " + service.OneLine(i.Command)
	}
	add("made by", by)
	add("git commit", i.GitCommit)
	return rows
}

func labelText(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, service.OneLine(k+"="+v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func rowsText(rows [][]string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(r[0] + ": " + r[1] + "\n")
	}
	return b.String()
}

func printFields(a *app, rows [][]string) {
	for i := range rows {
		rows[i] = []string{rows[i][0] + ":", rows[i][1]}
	}
	printTable(a.stdout, rows)
}

func renameCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rename A B",
		Aliases: []string{"mv"},
		Short:   "Rename snapshot A to B",
		Example: `  amberfs rename cp-7 v1`,
		Args:    args(2, 2, "the present name A and the new name B"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			req := service.Rename{From: argv[0], To: argv[1]}
			return show(a, cmd, req, func(info snapshot.Info) { a.printf("snapshot %s renamed to %s\n", req.From, req.To) })
		},
	}
}

func rmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "rm NAME...",
		Short: "Delete snapshots",
		Long: `Deletes snapshots. If one name is unknown or protected, none is deleted. Their space is
freed in the background, or at once by "amberfs gc".`,
		Example: `  amberfs rm v1 v2`,
		Args:    args(1, -1, "at least one NAME"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.Remove{Names: argv}, func(done service.Removed) {
				for _, name := range done.Names {
					a.printf("snapshot %s deleted\n", name)
				}
			})
		},
	}
}

// pinCommand is the command pin, or unpin.
func pinCommand(a *app, on bool) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pin NAME...",
		Short: "Protect snapshots from deletion",
		Long: `Protects snapshots from deletion by users, expiry and policy, until "amberfs unpin".
If one name is unknown, nothing changes.`,
		Example: `  amberfs pin v1`,
	}
	if !on {
		cmd = &cobra.Command{Use: "unpin NAME...", Short: "Allow deletion of pinned snapshots", Example: `  amberfs unpin v1`}
	}
	cmd.Args = args(1, -1, "at least one NAME")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return show(a, cmd, service.Pin{Names: argv, Pin: on}, func(done service.Pinned) {
			for _, name := range done.Names {
				a.printf("snapshot %s %sned\n", name, cmd.Name())
			}
		})
	}
	return cmd
}

func compactCommand(a *app) *cobra.Command {
	var req service.Compact
	cmd := &cobra.Command{
		Use:   "compact NAME NAME... --name NAME [-m MESSAGE]",
		Short: "Make one snapshot of several",
		Long: `Makes one snapshot that contains all files of the named snapshots, each in its newest
version, and deletes those that are not pinned. If the policy protects one, nothing
changes.`,
		Example: `  amberfs compact mon tue wed --name first-half`,
		Args:    args(2, -1, "two NAMEs or more"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if req.Name == "" {
				return fail.New(fail.Usage, "the new snapshot needs a name").WithHint("give it with --name")
			}
			req.Names = argv
			return show(a, cmd, req, func(done service.Compacted) { a.printf("%s", compactedLines(done)) })
		},
	}
	cmd.Flags().StringVar(&req.Name, "name", "", "`NAME` of the new snapshot")
	cmd.Flags().StringVarP(&req.Message, "message", "m", "", "`MESSAGE` of the new snapshot")
	return cmd
}

func compactedLines(done service.Compacted) string {
	text := "snapshot " + done.Name + " created: " + done.ID + "\n"
	if len(done.Removed) > 0 {
		text += "deleted " + strings.Join(done.Removed, " ") + "\n"
	}
	if len(done.Kept) > 0 {
		text += "pinned, so kept: " + strings.Join(done.Kept, " ") + "\n"
	}
	return text
}
