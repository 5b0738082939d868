package gitdir

import (
	"bytes"
	"maps"
	"slices"
	"strings"
)

// A filePlan is the plan for git's own files: the files of an operation in progress, such as a merge or a rebase (see
// operationNames), of linked working trees, of the stash, and of rerere.
type filePlan struct {
	contents   map[string][]byte // the bytes of files to write, by path; nil removes the file
	afterIndex map[string][]byte // the bytes of files to write after the index, by path
	tips       []string          // ids of objects that the files name
	lines      []string          // lines for Plan.Lines
}

// decideOperation takes the operation in progress of theirs as a whole or not at all. getsHead means that the
// receiving side gets the HEAD of theirs, and getsSparse that it gets the sparse checkout of theirs.
func (p *filePlan) decideOperation(s sides, refs *refPlan, getsHead, getsSparse bool) {
	if getsSparse && !bytes.Equal(s.base.sparseFile, s.theirs.sparseFile) {
		p.contents["info/sparse-checkout"] = s.theirs.sparseFile
	}

	p.takeRerere(s, refs)
	if s.base.sameOperation(s.theirs) || s.ours.sameOperation(s.theirs) {
		return
	}

	if !s.takesOperation() || !getsHead {
		if theirOperation := s.theirs.operation(); theirOperation != "" {
			refs.note("work in progress (%s) is left there", theirOperation)
		} else if ourOperation := s.ours.operation(); ourOperation != "" {
			refs.note("work in progress (%s) stays here", ourOperation)
		}
		return
	}

	p.lines = append(p.lines, "work in progress")
	for _, name := range keysOf(s.ours.operationFiles, s.theirs.operationFiles) {
		b := s.theirs.operationFiles[name] // nil if theirs does not have the file
		if !strings.HasPrefix(name, "refs/") {
			p.contents[name] = b
			p.tips = append(p.tips, wordsOf(b)...)
		} else if refs.newValue(name) != s.theirs.refs[name] {
			refs.setRef(name, s.ours.refs[name], s.theirs.refs[name])
		}
	}
}

// takesOperation reports whether the receiving side can take the operation in progress of theirs together with their
// HEAD.
func (s sides) takesOperation() bool {
	return s.hasNoOwnOperation() && !s.base.sameOperation(s.theirs) && (s.ours.sameIndex(s.base) || s.ours.sameIndex(s.theirs) || !s.theirs.hasConflicts())
}

// hasNoOwnOperation reports whether the receiving side has no operation in progress of its own: each file of an
// operation and each private ref is as in the base or as in theirs. After a killed merge, some can be as in the base
// and others as in theirs.
func (s sides) hasNoOwnOperation() bool {
	for _, of := range []*state{s.base, s.ours, s.theirs} {
		for name := range of.operationFiles {
			if is := s.ours.operationFiles[name]; !bytes.Equal(is, s.base.operationFiles[name]) && !bytes.Equal(is, s.theirs.operationFiles[name]) {
				return false
			}
		}
	}
	return true
}

// takeRerere takes the records of git rerere from theirs, unless ours has changed its records.
func (p *filePlan) takeRerere(s sides, refs *refPlan) {
	switch same := bytes.Equal; {
	case maps.EqualFunc(s.base.wholeFiles, s.theirs.wholeFiles, same), maps.EqualFunc(s.ours.wholeFiles, s.theirs.wholeFiles, same):
	case len(s.ours.wholeFiles) > 0 && !maps.EqualFunc(s.base.wholeFiles, s.ours.wholeFiles, same):
		refs.note("what rerere has recorded is left there")
	default:
		p.lines = append(p.lines, "what rerere has recorded")
		for name := range s.ours.wholeFiles {
			p.contents[name] = nil
		}
		maps.Copy(p.contents, s.theirs.wholeFiles)
	}
}

// takeLeftovers takes each file of leftoverNames that theirs has changed and ours has not.
func (p *filePlan) takeLeftovers(m *Merge) {
	for _, name := range leftoverNames {
		base, ours, theirs := readOptional(m.Base, name), readOptional(m.Ours, name), readOptional(m.Theirs, name)
		if theirs != nil && !bytes.Equal(base, theirs) && bytes.Equal(base, ours) {
			p.contents[name] = theirs
			p.tips = append(p.tips, wordsOf(theirs)...)
		}
	}
}

// operationKinds are the operations as users know them, by the first element of the paths of their files.
var operationKinds = map[string]string{"MERGE_HEAD": "a merge", "CHERRY_PICK_HEAD": "a cherry-pick", "REVERT_HEAD": "a revert", "BISECT_LOG": "a bisect",
	"rebase-merge": "a rebase", "rebase-apply": "a rebase"}

// operation names the operation in progress, "" for none. It ignores the other files of operationNames: a
// command that has ended may have left them behind.
func (s *state) operation() string {
	var out []string
	for name := range s.operationFiles {
		first, _, _ := strings.Cut(name, "/")
		if what := operationKinds[first]; what != "" {
			out = append(out, what)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " and ")
}
