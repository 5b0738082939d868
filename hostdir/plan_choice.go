package hostdir

import (
	"bytes"
	"path"
	"time"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Choice is the decision about the change of one path. The zero value applies the change.
type Choice struct {
	Leave        bool          // the directory keeps its version
	Text         []byte        // if not nil, the file is written with these bytes: the result of applying a part of its change
	ConflictRule threeway.Rule // the rule for a conflict; if it is zero, ApplyOptions.ConflictRule
	Markers      bool          // write conflict markers around lines that changed on both sides
	Merge        bool          // for a git directory: merge the commits of the workspace that are on a branch of their own
}

// ChooseDirs adds the choices for the directories of a plan, which follow from the choices for their entries. A
// new directory is made if an entry in it is applied. A deleted directory is removed if all entries in it are
// removed.
func ChooseDirs(choices map[string]Choice, plan []PlannedChange) {
	applied, skipped := make(map[string]bool), make(map[string]bool)
	for name, c := range choices {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			applied[dir] = applied[dir] || !c.Leave
			skipped[dir] = skipped[dir] || c.Leave
		}
	}

	for _, p := range plan {
		name := p.Path.String()
		if _, chosen := choices[name]; !chosen {
			choices[name] = Choice{Leave: skipped[name] && (p.After == nil || p.Before == nil && !applied[name])}
		}
	}
}

// A PlannedChange is the change of a path in a plan.
type PlannedChange struct {
	tree.Change
	Conflict       bool // the path changed in the directory, too
	Blocked        bool // the directory's version cannot be replaced
	CanHaveMarkers bool // conflict markers can be written into the file
}

// applyChoice applies the choice for a path to its change, and reports whether the directory keeps its version. A
// change of the times alone is always applied.
func (pl *planner) applyChoice(c *tree.Change) (leave bool, err error) {
	if isMinor(*c) && c.Differences&tree.LinksDiffer == 0 {
		return false, nil
	}

	choice := pl.o.ChoiceOf(c.Path.String())
	if choice.Text == nil || c.After == nil {
		return choice.Leave, nil
	}

	n := *c.After
	n.Mtime = time.Now().UnixNano()
	if n.Content, err = pl.tree.texts.storeText(pl.ctx, bytes.NewReader(choice.Text)); len(n.Links) > 1 {
		n.Ino, n.Links, pl.tree.nextIno = pl.tree.nextIno, n.Links[:1], pl.tree.nextIno-1
	}
	c.After, c.Differences = &n, c.Differences|tree.DataDiffers

	return choice.Leave, err
}
