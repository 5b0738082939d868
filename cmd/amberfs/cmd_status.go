package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/service"
)

func statusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the workspace and its store",
		Example: `  amberfs status --json`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a, cmd, service.GetStatus{}, func(st service.Status) { printFields(a, statusFields(st, time.Now())) })
		},
	}
}

// statusFields is a status for a person, as rows of name and value.
func statusFields(st service.Status, now time.Time) [][]string {
	rows := [][]string{
		{"workspace", fmt.Sprintf("%s, %s in %s", st.Workspace, bytesText(st.LogicalBytes), plural(int(st.Files), "file", "files"))},
		{"mounted at", fmt.Sprintf("%s by pid %d, up %s", quote(st.Mountpoint), st.PID, spanText(time.Duration(st.Uptime*float64(time.Second))))},
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
		snapshots += fmt.Sprintf(", the last %s, %s", st.LastSnapshot, humanize.RelTime(st.LastSnapshotAt, now, "ago", "from now"))
	}
	if st.NotStored > 0 {
		snapshots += fmt.Sprintf(", %d not stored yet", st.NotStored)
	}
	add("history", "%s", snapshots)
	if st.Forks > 0 {
		add("forks", "%d", st.Forks)
	}
	for _, r := range st.Remotes {
		if r.State == "untrusted" {
			add("remote", "%s is named by the store and not contacted; `amberfs remote trust %s` agrees to it", r.URL, r.Name)
		} else {
			add("remote", "%s has not answered for %s", r.URL, spanText(now.Sub(r.Since)))
		}
	}
	if p := st.Push; p != nil {
		add("pushed to "+p.Remote, "%s", pushText(p, now))
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

// pushText is the state of automatic pushes.
func pushText(p *service.BackupState, now time.Time) string {
	text := "none since the mount"
	if p.Snapshot != "" {
		text = fmt.Sprintf("%s, %s", p.Snapshot, humanize.RelTime(p.Pushed, now, "ago", "from now"))
	}
	if p.Error != "" {
		text += "; the last attempt failed: " + p.Error
	}
	return text
}

// ratioText is how much the packs are compressed.
func ratioText(plain, stored int64) string {
	if stored <= 0 || plain <= 0 {
		return "empty"
	}
	return fmt.Sprintf("%s of contents, %.1f×", bytesText(plain), float64(plain)/float64(stored))
}

// msText is a time in milliseconds for a person.
func msText(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.1f s", ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 0.1:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f µs", ms*1000)
}

// spanText is a span of time in its two largest units.
func spanText(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}
