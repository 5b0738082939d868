package service

import (
	"fmt"
	"strings"
)

func remoteLines(l *RemoteList) string {
	return JoinRows(each(l.Remotes, "no remotes", func(r Remote) []string { return []string{r.Name, r.URL} }), "\t")
}

// Notes returns remarks that commands print besides the result.
func (r *AddedRemote) Notes() []string { return r.Warnings }

func pulledLines(a Pull, l *PulledList) (text string) {
	for _, i := range l.Pulled {
		text += fmt.Sprintf("snapshot %s pulled from %s: %s, %s\n", i.Name, a.Remote, plural(i.Files, "file", "files"), BytesText(i.Bytes))
	}
	return text
}

func remoteSnapshotLines(l *RemoteSnapshotList) string {
	return Columns(each(l.Snapshots, "no snapshots", func(s RemoteSnapshot) []string {
		if s.Problem != "" {
			return []string{s.Name, "-", "-", OneLine(s.Problem)}
		}
		return Row(s.Info)
	}))
}

func removedPushedLines(a RemovePushed, done *Removed) (text string) {
	for _, name := range done.Names {
		text += fmt.Sprintf("snapshot %s removed from %s\n", name, a.Remote)
	}
	return text
}

func verifiedRemoteLines(v *VerifiedRemote) string {
	var b strings.Builder
	for _, d := range v.Damage {
		fmt.Fprintf(&b, "%s: %s\n", d.Snapshot, d.Problem)
	}
	fmt.Fprintf(&b, "%s, %s, %s\n", plural(v.Snapshots, "snapshot", "snapshots"), plural(v.Objects, "object", "objects"), BytesText(v.Bytes))
	return b.String()
}
