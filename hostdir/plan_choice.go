package hostdir

import (
	"bytes"
	"path"
	"time"

	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Choice is what becomes of one path. The zero value applies its change.
type Choice struct {
	Leave     bool          // the directory keeps what it has
	Text      []byte        // if not nil, a file gets these bytes: a part of its change
	Conflicts threeway.Rule // in place of that of ApplyOptions, if it is one that decides
	Markers   bool          // lines that changed on both sides get conflict markers
	Merge     bool          // of a git directory: commits that got a branch of their own are merged
}

// ChooseDirs adds the choices for the directories of a plan to those for what is in them: a new
// directory comes with what is applied in it, and one that is gone goes if nothing in it is left.
func ChooseDirs(choices map[string]Choice, plan []Planned) {
	applied, left := make(map[string]bool), make(map[string]bool)
	for name, c := range choices {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			applied[dir] = applied[dir] || !c.Leave
			left[dir] = left[dir] || c.Leave
		}
	}

	for _, p := range plan {
		name := p.Path.String()
		if _, chosen := choices[name]; !chosen {
			choices[name] = Choice{Leave: left[name] && (p.After == nil || p.Before == nil && !applied[name])}
		}
	}
}

// Planned is a path that is to change.
type Planned struct {
	tree.Change
	Conflict bool // the directory changed it, too
	Blocked  bool // the directory's version cannot be replaced
	Lines    bool // its lines can get conflict markers
}

// choose applies the choice for a path to its change, and reports whether the directory keeps what it
// has. A change of a time is not chosen.
func (pl *planner) choose(c *tree.Change) (leave bool, err error) {
	if minor(*c) && c.What&tree.Links == 0 {
		return false, nil
	}

	choice := pl.o.ChoiceOf(c.Path.String())
	if choice.Text == nil || c.After == nil {
		return choice.Leave, nil
	}

	n := *c.After
	n.Mtime = time.Now().UnixNano()
	if n.Content, err = pl.tree.texts.store(pl.ctx, bytes.NewReader(choice.Text)); len(n.Links) > 1 {
		n.Ino, n.Links, pl.tree.last = pl.tree.last, n.Links[:1], pl.tree.last-1
	}
	c.After, c.What = &n, c.What|tree.Data

	return choice.Leave, err
}
