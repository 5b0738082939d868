package service

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/info"
)

func statusFields(st *Status) [][]string {
	rows := [][]string{
		{"workspace", fmt.Sprintf("%s, %s in %s", st.Workspace, BytesText(st.LogicalBytes), plural(int(st.Files), "file", "files"))},
		{"mounted at", fmt.Sprintf("%s by pid %d, up %s", gitquote.ReadableName(st.Mountpoint), st.PID, time.Duration(st.Uptime)*time.Second)},
		{"store", gitquote.ReadableName(st.Store)},
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
		add("changed by", "%s, for a sandbox: if it caches, old states are seen there and writes can be lost", st.Gateway)
	}
	if st.CrashEnds != "" {
		add("a crash", "ends the mount: %s", st.CrashEnds)
	}
	if st.Restarts > 0 {
		add("restarts", "%d, the last (%s) with a pause of %s", st.Restarts, st.Restart, msText(1000*st.Pause))
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
		add("last stored", "%s (%s since the mount)", msText(m.LastStoreMs), BytesText(m.PackedBytes))
	}

	if st.FromRemote {
		add("shared", "%s in all snapshots and workspaces; unchanged contents are read from a remote", BytesText(st.ReferencedBytes))
	} else if st.ChunkBytes > 0 {
		add("shared", "%s in all snapshots and workspaces, stored in %s (%.1f×)",
			BytesText(st.ReferencedBytes), BytesText(st.ChunkBytes), float64(st.ReferencedBytes)/float64(st.ChunkBytes))
	}

	add("on disk", "%s of packs (%s), %s of journal", BytesText(st.StoredBytes), ratioText(st.ChunkBytes, st.StoredBytes), BytesText(st.JournalBytes))
	add("disk free", "%s", BytesText(st.DiskFreeBytes))
	add("memory", "%s of cache", BytesText(st.CacheBytes))
	var n uint64
	for op, k := range st.Requests {
		if op != "NODES" {
			n += k
		}
	}

	add("requests", "%s answered, %s inodes known to the kernel", humanize.Comma(int64(n)), humanize.Comma(int64(st.Requests["NODES"])))
	if st.StaleNames > 0 {
		add("stale names", "%s that the kernel has still to drop; a restore, merge or import waits for it", humanize.Comma(st.StaleNames))
	}

	add("next", "%s", nextInWorkspace(st))

	return rows
}

// nextInWorkspace returns the commands to suggest next in a workspace.
func nextInWorkspace(st *Status) string {
	if st.LastSnapshot == "" {
		return "amberfs snapshot NAME"
	}
	return fmt.Sprintf("amberfs diff %[1]s shows what changed since, amberfs restore %[1]s restores it", gitquote.ReadableName(st.LastSnapshot))
}

func pushText(p *BackupState) string {
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
	return fmt.Sprintf("%s of contents, %.1f×", BytesText(plain), float64(plain)/float64(stored))
}

func msText(ms float64) string {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Microsecond).String()
}

func remoteLines(l *RemoteList) string {
	return JoinRows(rowsOf(l.Remotes, "no remotes", func(r Remote) []string { return []string{r.Name, r.URL} }), "\t")
}

// Notes returns remarks that commands print in addition to the result.
func (r *AddedRemote) Notes() []string { return r.Warnings }

func pulledLines(a Pull, l *PulledList) string {
	return joinTexts(l.Pulled, func(i info.Info) string {
		return fmt.Sprintf("snapshot %s pulled from %s: %s, %s\n", i.Name, a.Remote, plural(i.Files, "file", "files"), BytesText(i.Bytes))
	})
}

func remoteSnapshotLines(l *RemoteSnapshotList) string {
	return AlignColumns(rowsOf(l.Snapshots, "no snapshots", func(s RemoteSnapshot) []string {
		if s.Problem != "" {
			return []string{s.Name, "-", "-", OneLine(s.Problem)}
		}
		return SnapshotRow(s.Info)
	}))
}

func removedPushedLines(a RemovePushed, result *Removed) string {
	return joinTexts(result.Names, func(name string) string { return fmt.Sprintf("snapshot %s removed from %s\n", name, a.Remote) })
}

func verifiedRemoteLines(v *VerifiedRemote) string {
	text := joinTexts(v.Damage, func(d RemoteDamage) string { return d.Snapshot + ": " + d.Problem + "\n" })
	return text + fmt.Sprintf("%s, %s, %s\n", plural(v.Snapshots, "snapshot", "snapshots"), plural(v.Objects, "object", "objects"), BytesText(v.Bytes))
}
