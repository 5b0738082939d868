package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/usage"
)

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the workspace and its store",
		Example: `  amberfs status --json`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.GetStatus{}, func(st service.Status) { printFields(a, statusFields(st)) })
		},
	}
}

func statusFields(st service.Status) [][]string {
	rows := [][]string{
		{"workspace", fmt.Sprintf("%s, %s in %s", st.Workspace, bytesText(st.LogicalBytes), plural(int(st.Files), "file", "files"))},
		{"mounted at", fmt.Sprintf("%s by pid %d, up %s", quote(st.Mountpoint), st.PID, time.Duration(st.Uptime)*time.Second)},
		{"store", quote(st.Store)},
		{"health", st.Health},
	}
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	if st.Frozen {
		add("frozen", "changes wait until `amberfs thaw`, or until the freeze ends")
	}
	snapshots := plural(st.Snapshots, "snapshot", "snapshots")
	if st.LastSnapshot != "" {
		snapshots += fmt.Sprintf(", the last %s, %s", st.LastSnapshot, humanize.Time(st.LastSnapshotAt))
	}
	if st.NotStored > 0 {
		snapshots += fmt.Sprintf(", %d not stored yet", st.NotStored)
	}
	add("history", "%s", snapshots)
	if st.Forks > 0 {
		add("forks", "%d", st.Forks)
	}
	if st.Gateway != "" {
		add("changed by", "%s, for a sandbox: if it caches names, it shows the state before a restore until that ends", st.Gateway)
	}
	for _, r := range st.Remotes {
		if r.State == "untrusted" {
			add("remote", "%s is named by the store and not contacted; `amberfs remote trust %s` agrees to it", r.URL, r.Name)
		} else {
			add("remote", "%s has not answered for %s", r.URL, time.Since(r.Since).Round(time.Second))
		}
	}
	if p := st.Push; p != nil {
		add("pushed to "+p.Remote, "%s", pushText(p))
	}
	m := st.Metrics
	if m.Snapshots > 0 {
		add("last snapshot", "%s (%d since the mount)", msText(m.LastSnapshotMs), m.Snapshots)
	}
	if m.Restores > 0 {
		add("last restore", "%s (%d since the mount)", msText(m.LastRestoreMs), m.Restores)
	}
	if m.Stored > 0 {
		add("last stored", "%s (%s since the mount)", msText(m.LastStoreMs), bytesText(m.PackedBytes))
	}
	if st.FromRemote {
		add("shared", "%s in all snapshots and workspaces; unchanged contents are read from a remote", bytesText(st.ReferencedBytes))
	} else if st.ChunkBytes > 0 {
		add("shared", "%s in all snapshots and workspaces, stored in %s (%.1f×)",
			bytesText(st.ReferencedBytes), bytesText(st.ChunkBytes), float64(st.ReferencedBytes)/float64(st.ChunkBytes))
	}
	add("on disk", "%s of packs (%s), %s of journal", bytesText(st.StoredBytes), ratioText(st.ChunkBytes, st.StoredBytes), bytesText(st.JournalBytes))
	add("disk free", "%s", bytesText(st.DiskFreeBytes))
	add("memory", "%s of cache", bytesText(st.CacheBytes))
	var n uint64
	for op, k := range st.Requests {
		if op != "NODES" {
			n += k
		}
	}
	add("requests", "%s answered, %s inodes known to the kernel", humanize.Comma(int64(n)), humanize.Comma(int64(st.Requests["NODES"])))
	return rows
}

func pushText(p *service.BackupState) string {
	text := "none since the mount"
	if p.Snapshot != "" {
		text = fmt.Sprintf("%s, %s", p.Snapshot, humanize.Time(p.Pushed))
	}
	if p.Error != "" {
		text += "; the last attempt failed: " + p.Error
	}
	return text
}

func ratioText(plain, stored int64) string {
	if stored <= 0 || plain <= 0 {
		return "empty"
	}
	return fmt.Sprintf("%s of contents, %.1f×", bytesText(plain), float64(plain)/float64(stored))
}

func msText(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond).String()
}

func freezeCommand(a *app) *cobra.Command {
	var req service.Freeze
	cmd := &cobra.Command{
		Use:   "freeze [--for 30s]",
		Short: "Stop all changes for a while",
		Long: `Stops all changes to the store's workspaces, so that another program can copy a quiet
tree. Writers wait, readers continue. A reader still waits for a directory whose names
change, and before Linux 6.16 to close a file that changes. Reading a snapshot needs no
freeze.`,
		Example: `  amberfs freeze --for 10s`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, req, func(done service.Frozen) { a.printf("frozen until %s\n", done.Until.Format(time.RFC3339)) })
		},
	}
	cmd.Flags().StringVar(&req.For, "for", "30s", "end the freeze after this `TIME`")
	return cmd
}

func thawCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "thaw",
		Short:   "End a freeze",
		Example: `  amberfs thaw`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.Thaw{}, func(done service.Thawed) {
				if done.Thawed {
					a.printf("thawed\n")
				} else {
					a.printf("not frozen\n")
				}
			})
		},
	}
}

func policyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "policy [FILE]",
		Short: "Show or change what is kept, and limits",
		Long: `Shows the policy of the workspace as JSON, or changes it by the JSON merge patch in
FILE ("-" is standard input).`,
		Example: `  amberfs policy > policy.json
  amberfs policy policy.json`,
		Args: args(0, 1, "at most one FILE"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			var doc json.RawMessage
			var req any = service.Policy{}
			if len(argv) == 1 {
				name := argv[0]
				in, err := a.openInput(name)
				if err != nil {
					return err
				}
				defer in.Close()
				patch, err := io.ReadAll(in)
				if err == nil {
					err = strictjson.Decode(patch, new(json.RawMessage))
				}
				if name == "-" {
					name = "the standard input"
				}
				if err != nil {
					return fail.New(fail.Usage, "cannot read a policy from %s: %w", name, err)
				}
				req = service.SetPolicy{Patch: patch}
			}
			if err := a.askHere(cmd.Context(), req, &doc); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(doc)
			}
			var b bytes.Buffer
			if err := json.Indent(&b, doc, "", "  "); err != nil {
				return err
			}
			a.printf("%s\n", b.Bytes())
			return nil
		},
	}
}

func gcCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Free space that nothing needs",
		Long: `Frees the disk space that no snapshot and no workspace needs. It also runs in the
background, and works on a full disk.`,
		Example: `  amberfs gc`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.GC{}, func(done service.Collected) {
				if done.Bytes == 0 && done.Objects == 0 {
					a.printf("nothing to free\n")
					return
				}
				a.printf("freed %s (%d objects)\n", bytesText(done.Bytes), done.Objects)
			})
		},
	}
}

func duCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "du [SNAPSHOT]...",
		Short: "Show the space that snapshots and forks use alone",
		Long: `Shows the bytes on disk that deleting each snapshot and fork, or each given SNAPSHOT,
would free. The last line is for all of these snapshots.`,
		Example: `  amberfs du
  amberfs du v1 v2`,
		Args: args(0, -1, "any SNAPSHOTs"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			return show(a, cmd, service.DU{Names: argv}, func(u usage.Disk) {
				rows := [][]string{}
				for _, s := range u.Snapshots {
					rows = append(rows, []string{bytesText(s.Bytes), s.Name})
				}
				for _, f := range u.Forks {
					rows = append(rows, []string{bytesText(f.Bytes), ".forks/" + f.Name})
				}
				rows = append(rows, []string{bytesText(u.Together), plural(len(u.Snapshots), "snapshot", "snapshots") + " together"})
				a.printf("%s", joinRows(rows))
			})
		},
	}
}
