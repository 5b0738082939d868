package hostdir

import (
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A run executes a command in a user namespace, in which an ordinary user seems to own all files. So the copies
// that the command makes have wrong owners, groups or ACLs. An apply restores these attributes of most copies.
// reportUnlikeCopies adds notes about copies whose attributes cannot be restored.

// A copyKind has the attributes that a copy shares with its original.
type copyKind struct {
	mode  uint32 // of a directory: the mode that the run showed
	size  int64  // of a regular file
	mtime int64  // 0 for a copy with a time of its own
}

// reportUnlikeCopies adds notes about the new files and directories that would have another group or other
// permissions if the command had run in the directory itself instead of in the workspace.
func (pl *planner) reportUnlikeCopies() error {
	if os.Geteuid() == 0 {
		return nil
	}
	seen := make(map[copyKind][]*decision)

	for _, s := range pl.steps {
		n, was := s.workspace.After, s.workspace.Before
		if s.action != keep && s.isTakenOver() {
			pl.addNote(s.change.Path.Short(), "another user's, which was renamed: here it becomes yours")
		}
		if s.action == keep || n == nil || n.UID != uint32(os.Geteuid()) || was != nil && was.Ino == n.Ino {
			continue
		}

		if k, ok := kindOfCopy(n); ok {
			seen[k] = append(seen[k], s)
		} else if was != nil && was.GID != n.GID && inGroup(int(was.GID)) {
			pl.addNote(s.change.Path.Short(), fmt.Sprintf("a new file, without the group %d of the old one, which the run does not show", was.GID))
		}
	}
	if len(seen) == 0 {
		return nil
	}

	return pl.o.Base.Walk(pl.ctx, pl.o.Source, tree.WalkOptions{}, func(p *tree.Path, n *tree.Inode) error {
		shown := *n
		shown.Mode = shownMode(n)
		timed := kindOfOriginal(&shown)
		untimed := timed
		untimed.mtime = 0

		for _, s := range slices.Concat(seen[timed], seen[untimed]) {
			text, err := pl.describeMissingAttrs(s.workspace.After, n, &shown)
			if err != nil {
				return err
			}
			if text != "" {
				pl.addNote(s.change.Path.Short(), fmt.Sprintf("a copy of %s, %s", p.Short(), text))
			}
		}

		return nil
	})
}

// kindOfCopy returns the kind of a file, and whether the file may be a copy that lost attributes: it has the time
// of another file, or its owner cannot write it.
func kindOfCopy(n *tree.Inode) (copyKind, bool) {
	kind, timed := kindOfOriginal(n), n.Mtime < n.Btime
	if !timed {
		kind.mtime = 0
	}
	return kind, (n.IsRegular() || n.IsDir()) && (timed || n.Mode&unix.S_IWUSR == 0)
}

// kindOfOriginal returns the kind that copies of a file have.
func kindOfOriginal(n *tree.Inode) copyKind {
	if n.IsRegular() {
		return copyKind{size: n.Size(), mtime: n.Mtime}
	}
	return copyKind{mode: n.Mode, size: -1, mtime: n.Mtime}
}

// shownMode returns the mode that a run shows for a file.
func shownMode(n *tree.Inode) uint32 {
	const rwxMask, groupShift, ownerShift = unix.S_IRWXO, 3, 6
	switch {
	case n.UID == uint32(os.Geteuid()):
		return n.Mode
	case inGroup(int(n.GID)):
		return n.Mode&^unix.S_IRWXU | n.Mode>>groupShift&rwxMask<<ownerShift
	}

	return n.Mode&^unix.S_IRWXU | n.Mode&rwxMask<<ownerShift
}

// describeMissingAttrs describes the attributes that the copy n lacks, "" if it lacks none. shown is the
// original as the run showed it.
func (pl *planner) describeMissingAttrs(n, original, shown *tree.Inode) (string, error) {
	unwritable := original.Mode != shown.Mode && n.Mode&0o777 == shown.Mode&0o777
	if n.Mtime != original.Mtime && !unwritable {
		return "", nil
	}

	if !n.IsDir() {
		if same, err := tree.SameData(pl.o.Source, original, n); err != nil || !same {
			return "", err
		}
	}

	lacks := func(acl string) bool {
		return hasXattr(original, acl) && slices.Contains(threeway.ChangedXattrs(original, n), acl)
	}
	switch {
	case unwritable:
		return "without its permission to write, which the run does not show", nil
	case original.GID != n.GID && inGroup(int(original.GID)):
		return fmt.Sprintf("without its group %d, which the run does not show", original.GID), nil
	case lacks("system.posix_acl_access"), lacks("system.posix_acl_default"):
		return "without its access control list, which the run does not show", nil
	}

	return "", nil
}
