package gitdir

import (
	"bytes"
	"slices"
	"strings"
)

// A workPlan is what becomes of work in progress, and of the stash's log.
type workPlan struct {
	files map[string][]byte // to write; nil: to remove
	tips  []string          // objects that they need
}

// take takes work in progress as a whole, or leaves it, and a sparse checkout.
func (p *workPlan) take(s sides, refs *refPlan, fits, sparse bool) {
	if sparse && !bytes.Equal(s.base.sparse, s.theirs.sparse) {
		p.files["info/sparse-checkout"] = s.theirs.sparse
	}
	if s.base.sameWork(s.theirs) || s.ours.sameWork(s.theirs) {
		return
	}
	if !s.base.sameWork(s.ours) || !fits {
		refs.say("work in progress (%s) is left there", strings.Join(s.theirs.progress(), ", "))
		return
	}
	for name := range s.ours.unfinished {
		if _, ok := s.theirs.unfinished[name]; !ok {
			p.files[name] = nil
		}
	}
	for name, b := range s.theirs.unfinished {
		p.files[name] = b
		p.tips = append(p.tips, s.idsIn(b)...)
	}
	for _, has := range []map[string]string{s.ours.refs, s.theirs.refs} {
		for name := range has {
			if Private(name) && refs.value(name) != s.theirs.refs[name] {
				refs.update(name, s.ours.refs[name], s.theirs.refs[name])
			}
		}
	}
}

// progress names work in progress.
func (s *state) progress() (out []string) {
	for name := range s.unfinished {
		first, _, _ := strings.Cut(name, "/")
		out = append(out, first)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
