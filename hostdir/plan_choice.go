package hostdir

import (
	"bytes"
	"cmp"
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

// choose applies the choice for a path to its step, and reports whether the directory
// keeps what it has.
func (pl *planner) choose(d *decision) (leave bool) {
	c := &d.change
	d.choice = pl.o.ChoiceOf(c.Path.String())
	if d.choice.Leave && c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir() {
		pl.excluded[c.Path.String()] = true // with all below
	}

	if d.choice.Text != nil && c.After != nil {
		n := *c.After
		n.Mtime = time.Now().UnixNano()
		c.After, d.text = &n, d.choice.Text
	}

	return d.choice.Leave
}

// isApplied reports whether the directory already has what a step would apply.
func (pl *planner) isApplied(d *decision) (bool, error) {
	c, at := d.change, d.seen
	if d.text == nil {
		return pl.host.same(pl.o.Source, c.Path, at, c.After)
	}
	if !at.exists || at.st.Mode != c.After.Mode || at.st.Size != int64(len(d.text)) {
		return false, nil
	}

	has, err := pl.host.read(c.Path)
	return bytes.Equal(has, d.text), err
}

// conflict records a conflict, and reports whether the path is written nevertheless. blocked means
// that no rule may replace what the directory has.
func (pl *planner) conflict(d *decision, blocked bool) (written bool) {
	p := cmp.Or(d.change.Path.Short(), ".")
	pl.res.Conflicts = append(pl.res.Conflicts, p)
	pl.res.Plan = append(pl.res.Plan, Planned{d.change, true, blocked, d.marked != nil})
	if d.choice.Markers && d.marked != nil {
		pl.takeText(d, d.marked)
		return true
	}

	switch cmp.Or(d.choice.Conflicts, pl.o.Conflicts) {
	case threeway.RefuseConflicts:
		pl.refused = true
	case threeway.TakeTheirs:
		if blocked {
			pl.blocked = append(pl.blocked, p)
		}
		pl.force(d)
		return true
	}

	return false
}
