package gitdir

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// A workPlan is the plan for git's own files of work in progress, such as a merge or a rebase (see unfinishedNames),
// and for the log of the stash.
type workPlan struct {
	files map[string][]byte // files to write; nil removes the file
	last  map[string][]byte // files to write after the index
	tips  []string          // ids of objects that the files name
	said  []string          // lines for Plan.Lines
}

// decide takes the work in progress of theirs as a whole or not at all. fits means that the receiving side gets the
// HEAD of theirs, and sparse that it gets the sparse checkout of theirs.
func (p *workPlan) decide(s sides, refs *refPlan, fits, sparse bool) {
	if sparse && !bytes.Equal(s.base.sparse, s.theirs.sparse) {
		p.files["info/sparse-checkout"] = s.theirs.sparse
	}

	p.takeRerere(s, refs)
	if s.base.sameWork(s.theirs) || s.ours.sameWork(s.theirs) {
		return
	}

	if !s.takesWork() || !fits {
		if there := s.theirs.progress(); there != "" {
			refs.say("work in progress (%s) is left there", there)
		} else if here := s.ours.progress(); here != "" {
			refs.say("work in progress (%s) stays here", here)
		}
		return
	}

	p.said = append(p.said, "work in progress")
	for name := range s.ours.unfinished {
		if _, ok := s.theirs.unfinished[name]; !ok {
			p.files[name] = nil
		}
	}

	for name, b := range s.theirs.unfinished {
		p.files[name] = b
		p.tips = append(p.tips, wordsOf(b)...)
	}

	for _, has := range []map[string]string{s.ours.refs, s.theirs.refs} {
		for name := range has {
			if Private(name) && refs.value(name) != s.theirs.refs[name] {
				refs.update(name, s.ours.refs[name], s.theirs.refs[name])
			}
		}
	}
}

// takesWork reports whether the receiving side can take the work in progress of theirs together with their HEAD.
func (s sides) takesWork() bool {
	return s.hasNoOther() && !s.base.sameWork(s.theirs) && (s.ours.sameIndex(s.base) || s.ours.sameIndex(s.theirs) || !s.theirs.unmerged())
}

// hasNoOther reports whether the receiving side has no work in progress of its own: each file and each private ref is
// as in the base or as in theirs. After a killed merge, some can be as in the base and others as in theirs.
func (s sides) hasNoOther() bool {
	for _, of := range []*state{s.base, s.ours, s.theirs} {
		for name := range of.unfinished {
			if is := s.ours.unfinished[name]; !bytes.Equal(is, s.base.unfinished[name]) && !bytes.Equal(is, s.theirs.unfinished[name]) {
				return false
			}
		}
		for name := range of.refs {
			if is := s.ours.refs[name]; Private(name) && is != s.base.refs[name] && is != s.theirs.refs[name] {
				return false
			}
		}
	}
	return true
}

// takeRerere takes the records of git rerere from theirs, unless ours has changed its records.
func (p *workPlan) takeRerere(s sides, refs *refPlan) {
	switch same := bytes.Equal; {
	case maps.EqualFunc(s.base.whole, s.theirs.whole, same), maps.EqualFunc(s.ours.whole, s.theirs.whole, same):
	case len(s.ours.whole) > 0 && !maps.EqualFunc(s.base.whole, s.ours.whole, same):
		refs.say("what rerere has recorded is left there")
	default:
		p.said = append(p.said, "what rerere has recorded")
		for name := range s.ours.whole {
			p.files[name] = nil
		}
		maps.Copy(p.files, s.theirs.whole)
	}
}

// takeLast takes each file of lastNames that theirs has changed and ours has not.
func (p *workPlan) takeLast(m *Merge) {
	for _, name := range lastNames {
		base, ours, theirs := readAny(m.Base, name), readAny(m.Ours, name), readAny(m.Theirs, name)
		if theirs != nil && !bytes.Equal(base, theirs) && bytes.Equal(base, ours) {
			p.files[name] = theirs
			p.tips = append(p.tips, wordsOf(theirs)...)
		}
	}
}

// workNames are the kinds of work in progress as users know them, by the first element of the paths of their files.
var workNames = map[string]string{"MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "BISECT_LOG": "a bisect",
	"rebase-merge": "a rebase", "rebase-apply": "a rebase"}

// progress names the work in progress, "" for none. Files of unfinishedNames that are not in workNames may be left by
// commands that have ended.
func (s *state) progress() string {
	var out []string
	for name := range s.unfinished {
		first, _, _ := strings.Cut(name, "/")
		if what := workNames[first]; what != "" {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " and ")
}
