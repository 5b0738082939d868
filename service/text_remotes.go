package service

import (
	"fmt"

	"github.com/amberfs/amberfs/snapshot/info"
)

func remoteLines(l *RemoteList) string {
	return JoinRows(each(l.Remotes, "no remotes", func(r Remote) []string { return []string{r.Name, r.URL} }), "\t")
}

// Notes returns remarks that commands print besides the result.
func (r *AddedRemote) Notes() []string { return r.Warnings }

func pulledLines(a Pull, l *PulledList) string {
	return textOf(l.Pulled, func(i info.Info) string {
		return fmt.Sprintf("snapshot %s pulled from %s: %s, %s\n", i.Name, a.Remote, plural(i.Files, "file", "files"), BytesText(i.Bytes))
	})
}

func remoteSnapshotLines(l *RemoteSnapshotList) string {
	return Columns(each(l.Snapshots, "no snapshots", func(s RemoteSnapshot) []string {
		if s.Problem != "" {
			return []string{s.Name, "-", "-", OneLine(s.Problem)}
		}
		return Row(s.Info)
	}))
}

func removedPushedLines(a RemovePushed, done *Removed) string {
	return textOf(done.Names, func(name string) string { return fmt.Sprintf("snapshot %s removed from %s\n", name, a.Remote) })
}

func verifiedRemoteLines(v *VerifiedRemote) string {
	text := textOf(v.Damage, func(d RemoteDamage) string { return d.Snapshot + ": " + d.Problem + "\n" })
	return text + fmt.Sprintf("%s, %s, %s\n", plural(v.Snapshots, "snapshot", "snapshots"), plural(v.Objects, "object", "objects"), BytesText(v.Bytes))
}
