package hostdir

import (
	"os"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// moveDirs finds the directories of other users that only got another name. Their contents may not be
// removed, and a copy would be the user's, so such a directory is renamed with all that is in it.
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

// isDirOf reports whether a step makes the directory that another step removes: it has the same number or,
// after a refresh, the same time. A directory that could not be read, whose copy has no change time, needs
// the number.
func (d *decision) isDirOf(from *decision) bool {
	was, n := from.workspace.Before, d.workspace.After
	if was == nil || n == nil {
		return false
	}
	return was.Ino == n.Ino && was.Btime == n.Btime || was.Mtime == n.Mtime && was.Ctime != was.Mtime
}

// withBelow returns the step with a number, and those below its path.
func withBelow(steps []*decision, i int) []*decision {
	end := i + 1
	for end < len(steps) && strings.HasPrefix(steps[end].change.Path.String(), steps[i].change.Path.String()+"/") {
		end++
	}
	return steps[i:end]
}

// joinMove plans one rename in place of steps that remove a directory and make it elsewhere, if that has the
// same result.
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

// hasMoved reports whether a step gives its path the file or directory that another step removes.
func (d *decision) hasMoved(from *decision) bool {
	n, was := d.change.After, from.change.Before
	if n == nil || n.Mode != was.Mode || n.UID != was.UID || n.GID != was.GID || !tree.SameXattrs(n, was) {
		return false
	}
	return n.IsDir() || d.file != nil && d.file.at != nil && d.file.at.String() == from.change.Path.String()
}
