package hostdir

import (
	"os"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// moveDirs finds directories of other users that were only renamed. An ordinary user must not remove their
// contents, and would own a copy. So such a directory is renamed with its contents.
func moveDirs(steps []*decision) {
	if os.Geteuid() == 0 {
		return
	}

	for i, d := range steps {
		if d.carried || d.action != makeDir || d.seen.unreachable != nil || !isForeign(d.change.After) {
			continue
		}
		for j, from := range steps {
			if from.action == remove && !from.carried && from.change.Before.IsDir() && d.isDirOf(from) && joinMove(withBelow(steps, j), withBelow(steps, i)) {
				break
			}
		}
	}
}

// isDirOf reports whether a step creates the directory that the step from removes. The two have equal inode
// numbers or, after a refresh, equal change times. If the directory could not be read, its copy has no change
// time; then the numbers must be equal.
func (d *decision) isDirOf(from *decision) bool {
	was, n := from.workspace.Before, d.workspace.After
	if was == nil || n == nil {
		return false
	}
	return was.Ino == n.Ino && was.Btime == n.Btime || was.Mtime == n.Mtime && was.Ctime != was.Mtime
}

// withBelow returns step i and the steps for paths below its path.
func withBelow(steps []*decision, i int) []*decision {
	end := i + 1
	for end < len(steps) && strings.HasPrefix(steps[end].change.Path.String(), steps[i].change.Path.String()+"/") {
		end++
	}
	return steps[i:end]
}

// joinMove replaces the steps that remove a directory and create it at another path by one rename, if the result
// is equal.
func joinMove(from, to []*decision) bool {
	if len(from) != len(to) {
		return false
	}
	p, q := from[0].change.Path.String(), to[0].change.Path.String()
	for i, x := range from {
		here, there := x.change.Path.String(), to[i].change.Path.String()
		if here[len(p):] != there[len(q):] || x.action != remove || !to[i].hasMoved(x) {
			return false
		}
	}

	for i := range from {
		from[i].carried, to[i].carried = true, i > 0
	}
	to[0].action, to[0].source, to[0].from = moveDir, from[0].step, from[0].change.Path

	return true
}

// hasMoved reports whether a step creates at its path the file or directory that the step from removes.
func (d *decision) hasMoved(from *decision) bool {
	n, was := d.change.After, from.change.Before
	if n == nil || n.Mode != was.Mode || n.UID != was.UID || n.GID != was.GID || !tree.SameXattrs(n, was) {
		return false
	}
	return n.IsDir() || d.file != nil && d.file.at != nil && d.file.at.String() == from.change.Path.String()
}
