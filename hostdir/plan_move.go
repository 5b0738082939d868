package hostdir

import (
	"os"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// planMoves finds directories of other users that were only renamed. An ordinary user must not remove their
// contents, and a copy would belong to this user. So such a directory is renamed with its contents.
func planMoves(steps []*decision) {
	if os.Geteuid() == 0 {
		return
	}

	for i, d := range steps {
		if d.movedWithDir || d.action != makeDir || d.original.parentErr != nil || !isForeign(d.change.After) {
			continue
		}
		for j, removal := range steps {
			if removal.action == remove && !removal.movedWithDir && removal.change.Before.IsDir() && d.isMoveOf(removal) && joinMove(stepsBelow(steps, j), stepsBelow(steps, i)) {
				break
			}
		}
	}
}

// isMoveOf reports whether d creates the directory that the step removal removes. The two have equal inode
// numbers or, after a refresh, equal modification times. If the directory could not be read, its copy has no
// change time. In this case, the numbers must be equal.
func (d *decision) isMoveOf(removal *decision) bool {
	removed, n := removal.workspace.Before, d.workspace.After
	if removed == nil || n == nil {
		return false
	}
	return removed.Ino == n.Ino && removed.Btime == n.Btime || removed.Mtime == n.Mtime && removed.Ctime != removed.Mtime
}

// stepsBelow returns step i and the steps for paths below its path.
func stepsBelow(steps []*decision, i int) []*decision {
	end := i + 1
	for end < len(steps) && steps[end].change.Path.IsUnder(steps[i].change.Path) {
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
		if here[len(p):] != there[len(q):] || x.action != remove || !to[i].recreates(x) {
			return false
		}
	}

	for i := range from {
		from[i].movedWithDir, to[i].movedWithDir = true, i > 0
	}
	to[0].action, to[0].sourceStep, to[0].fromPath = moveDir, from[0].step, from[0].change.Path

	return true
}

// recreates reports whether d creates at its path the file or directory that the step removal removes.
func (d *decision) recreates(removal *decision) bool {
	n, removed := d.change.After, removal.change.Before
	if n == nil || !tree.SameAttrs(n, removed) {
		return false
	}
	return n.IsDir() || d.file != nil && d.file.path != nil && d.file.path.String() == removal.change.Path.String()
}
