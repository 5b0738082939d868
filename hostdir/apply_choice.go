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
func (a *applying) choose(s *applyStep) (leave bool) {
	if a.o.Choose == nil {
		return false
	}
	c := &s.change
	s.choice = a.o.Choose(c.Path.String())
	if s.choice.Leave && c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir() {
		a.excluded[c.Path.String()] = true // with all below
	}
	if s.choice.Text != nil && c.After != nil {
		n := *c.After
		n.Mtime = time.Now().UnixNano()
		c.After, s.text = &n, s.choice.Text
	}
	return s.choice.Leave
}

// isApplied reports whether the directory already has what a step would apply.
func (a *applying) isApplied(s *applyStep) (bool, error) {
	c, at := s.change, s.seen
	if s.text == nil {
		return a.host.same(a.o.Source, c.Path, at, c.After)
	}
	if !at.exists || at.st.Mode != c.After.Mode || at.st.Size != int64(len(s.text)) {
		return false, nil
	}
	has, err := a.host.read(c.Path)
	return bytes.Equal(has, s.text), err
}

// conflict records a conflict, and reports whether the path is written nevertheless. blocked means
// that no rule may replace what the directory has.
func (a *applying) conflict(s *applyStep, blocked bool) (written bool) {
	p := cmp.Or(s.change.Path.Short(), ".")
	a.res.Conflicts = append(a.res.Conflicts, p)
	a.res.Plan = append(a.res.Plan, Planned{s.change, true, blocked, s.marked != nil})
	if s.choice.Markers && s.marked != nil {
		a.takeText(s, s.marked)
		return true
	}
	switch cmp.Or(s.choice.Conflicts, a.o.Conflicts) {
	case threeway.RefuseConflicts:
		a.refused = true
	case threeway.TakeTheirs:
		if blocked {
			a.blocked = append(a.blocked, p)
		}
		a.force(s)
		return true
	}
	return false
}
