package gitdir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A Resolution is the decision about a path in conflict.
type Resolution int

const (
	Unresolved Resolution = iota // no decision: the branch is not merged
	TakeOurs
	TakeTheirs
	WithMarkers // the file gets conflict markers, and the merge stays in progress
)

// A branchMerge is git's merge of the branch of HEAD, which both sides moved.
type branchMerge struct {
	of      *Diverged
	tree    string                    // id of the merged tree
	stages  []IndexEntry              // entries of the paths in conflict
	left    []string                  // paths in conflict that get conflict markers
	changed map[string][2]*IndexEntry // by path: the entries of the receiving side before and after the merge
	both    map[string]bool           // whether the merged file at a path of changed differs from the HEAD of theirs
}

// Marked returns the paths that get conflict markers. If there are any, Commit leaves the merge in progress.
func (p *Plan) Marked() []string {
	if p.merge == nil {
		return nil
	}
	return p.merge.left
}

// NotMerged returns the branch of HEAD, and the reason, if Merge.Resolve is set and the branch cannot be merged.
// Otherwise why is "".
func (p *Plan) NotMerged() (branch, why string) {
	for _, d := range p.Diverged {
		if p.m.Resolve != nil && d.Head && d.NoMerge != "" {
			return d.Branch, d.NoMerge
		}
	}
	return "", ""
}

// describe sets Plan.Diverged: the commits and conflicts of each branch that both sides moved. It plans the merge of
// the branch of HEAD if Merge.Resolve is set.
func (p *Plan) describe(ctx context.Context) error {
	p.Diverged = p.refs.diverged
	for _, d := range p.Diverged {
		d.Ahead, d.Theirs = p.git.between(ctx, d.theirs, d.ours)
		d.Behind, d.Ours = p.git.between(ctx, d.ours, d.theirs)
		if d.Head = "ref: "+branches+d.Branch == p.ours.head; !d.Head || p.m.Ours.Work == "" && p.m.OurFile == nil {
			d.NoMerge = "it is not checked out"
		} else if err := p.tryMerge(ctx, d); err != nil {
			return err
		}

		switch {
		case p.merge == nil || p.merge.of != d:
			p.refs.say("%s moved on both sides: it stays, and %s has the other commits (`git merge %s`)", d.Branch, d.Parked, d.Parked)
		case len(p.merge.left) > 0:
			p.refs.say("%s moved on both sides, and its merge is to be completed", d.Branch)
		default:
			p.refs.say("%s moved on both sides, and is merged", d.Branch)
		}
	}

	return nil
}

// tryMerge merges the branch of HEAD in the scratch repository, and sets Conflicts and NoMerge of d. The merge
// becomes a part of the plan if Merge.Resolve is set and decides all conflicts, and inTheWay has no reason against
// the merge.
func (p *Plan) tryMerge(ctx context.Context, d *Diverged) error {
	if err := p.index.readSplit(ctx); err != nil {
		return err
	}

	m := &branchMerge{of: d}
	if err := p.mergeTree(ctx, m); err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}

	d.Conflicts = m.conflicts()

	if p.m.Resolve != nil {
		if err := p.resolve(ctx, m); err != nil {
			return err
		}
	}

	var err error
	if m.changed, err = p.git.diffTree(ctx, d.ours, m.tree); err != nil {
		return err
	}

	apart, err := p.git.diffTree(ctx, p.index.heads.theirs, m.tree) // the files of theirs are as in the HEAD of theirs
	if err != nil {
		return err
	}

	m.both = make(map[string]bool)
	for at := range m.changed {
		_, m.both[at] = apart[at]
	}
	if d.NoMerge, err = p.inTheWay(ctx, m); err != nil || d.NoMerge != "" || p.m.Resolve == nil || len(p.Unresolved) > 0 {
		return err
	}

	return p.join(ctx, m)
}

// join makes the merge a part of the plan: as a commit, or as work in progress if files have conflict markers.
func (p *Plan) join(ctx context.Context, m *branchMerge) error {
	d, h := m.of, &p.index.heads
	message := "Merge branch '" + d.Parked + "'\n"
	if len(m.left) > 0 {
		message += "\n# Conflicts:\n#\t" + strings.Join(m.left, "\n#\t") + "\n"
		p.work.last = map[string][]byte{"MERGE_MSG": []byte(message), "MERGE_MODE": {}, "MERGE_HEAD": []byte(d.theirs + "\n")}
		p.merge, h.to = m, m.tree
		return nil
	}

	commit, err := p.commitMerge(ctx, m, message)
	if err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}

	p.refs.updates = slices.DeleteFunc(p.refs.updates, func(u update) bool { return u.name == branches+d.Parked && u.old == "" })
	p.refs.update(branches+d.Branch, d.ours, commit)
	p.merge, h.to = m, commit

	return nil
}

// commitMerge makes the commit of a merge with the settings of the receiving side, and returns its id. If the
// receiving side only removed commits from the branch, commitMerge returns the commit of theirs instead: a
// fast-forward.
func (p *Plan) commitMerge(ctx context.Context, m *branchMerge, message string) (string, error) {
	if p.git.contains(ctx, m.of.theirs, m.of.ours) {
		return m.of.theirs, nil
	}
	args := []string{"commit-tree", "-p", m.of.ours, "-p", m.of.theirs}
	if sign, _ := p.asOurs(ctx, nil, nil, "config", "--type=bool", "--get", "commit.gpgSign"); strings.TrimSpace(sign) == "true" {
		args = append(args, "-S")
	}

	var env []string
	if p.m.Ours.Work == "" { // a Copy has no settings of the user: take the name of the last committer
		who, err := p.git.ask(ctx, nil, nil, "log", "-1", "--format=%cn%n%ce", m.of.ours)
		name, email, _ := strings.Cut(strings.TrimSpace(who), "\n")
		if err != nil {
			return "", err
		}
		env = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}
	}

	commit, err := p.asOurs(ctx, env, strings.NewReader(message), append(args, m.tree)...)
	return strings.TrimSpace(commit), err
}

// asOurs calls git with the settings of the receiving side and the attributes of its working tree. Git writes objects
// to the scratch repository.
func (p *Plan) asOurs(ctx context.Context, env []string, stdin io.Reader, args ...string) (string, error) {
	work, err := p.attributes(ctx)
	if err != nil {
		return "", err
	}

	own := []string{"GIT_NO_REPLACE_OBJECTS=1", "GIT_OBJECT_DIRECTORY=" + filepath.Join(p.git.dir, "objects")}
	if len(p.git.ends) > 0 {
		own = append(own, "GIT_SHALLOW_FILE="+filepath.Join(p.git.dir, "shallow"))
	}
	return gitCaller{p.m.Git, p.m.Ours.Dir, work, own}.ask(ctx, env, stdin, args...)
}

// attributes returns a working tree from which git can read attributes: that of the receiving side or, if it is not
// on this machine, a new directory with the .gitattributes files of the index.
func (p *Plan) attributes(ctx context.Context) (string, error) {
	if p.m.Ours.Work != "" {
		return p.m.Ours.Work, nil
	}
	work := filepath.Join(p.git.dir, "attributes")
	if err := os.Mkdir(work, 0o700); errors.Is(err, fs.ErrExist) {
		return work, nil
	} else if err != nil {
		return "", err
	}

	var names strings.Builder
	for _, e := range p.ours.entries() {
		if path.Base(e.Path) == ".gitattributes" {
			names.WriteString(e.Path + "\x00")
		}
	}

	_, err := gitCaller{p.m.Git, p.m.Ours.Dir, work, nil}.ask(ctx, nil, strings.NewReader(names.String()), "checkout-index", "-z", "--stdin")
	return work, err
}

// mergeTree merges the commits of both sides as git merge does, and sets tree and stages of m. In the tree, files in
// conflict have markers.
func (p *Plan) mergeTree(ctx context.Context, m *branchMerge) error {
	out, err := p.asOurs(ctx, nil, nil, "merge-tree", "--write-tree", "--no-messages", "-z", m.of.ours, m.of.theirs)
	const inConflict = 1
	if err != nil && ExitCode(err) != inConflict {
		return err
	}

	tree, rest, _ := strings.Cut(out, "\x00")
	m.tree = tree
	for line := range strings.SplitSeq(strings.TrimSuffix(rest, "\x00"), "\x00") {
		var e IndexEntry
		head, at, ok := strings.Cut(line, "\t")
		if _, err := fmt.Sscanf(head, "%o %s %d", &e.Mode, &e.ID, &e.Stage); err == nil && ok {
			e.Path = at
			m.stages = append(m.stages, e)
		}
	}

	return nil
}

// conflicts returns the paths in conflict.
func (m *branchMerge) conflicts() (out []string) {
	for _, e := range m.stages {
		out = append(out, e.Path)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// resolve asks Resolve about each path in conflict, and puts the decisions into the tree of m.
func (p *Plan) resolve(ctx context.Context, m *branchMerge) error {
	var info strings.Builder
	for _, at := range m.conflicts() {
		stage := 2

		switch p.m.Resolve(at) {
		case Unresolved:
			p.Unresolved = append(p.Unresolved, at)
			continue
		case WithMarkers:
			m.left = append(m.left, at)
			continue
		case TakeTheirs:
			stage = 3
		}

		fmt.Fprintf(&info, "0 %s\t%s\x00", strings.Repeat("0", 2*p.ours.idLen), at)

		for _, e := range m.stages {
			if e.Path == at && e.Stage == stage {
				fmt.Fprintf(&info, "%o %s 0\t%s\x00", e.Mode, e.ID, at)
			}
		}
	}
	if info.Len() == 0 {
		return nil
	}

	env := []string{"GIT_INDEX_FILE=" + filepath.Join(p.git.dir, "merge-index")}
	_, err := p.git.ask(ctx, env, nil, "read-tree", m.tree)
	if err == nil {
		_, err = p.git.ask(ctx, env, strings.NewReader(info.String()), "update-index", "-z", "--index-info")
	}

	if err == nil {
		m.tree, err = p.git.ask(ctx, env, nil, "write-tree", "--missing-ok")
		m.tree = strings.TrimSpace(m.tree)
	}

	return err
}

// inTheWay returns the reason why a branch cannot be merged, "" if it can be merged. As for git merge, no path may be
// staged, and no file that the merge changes may have uncommitted changes. This holds for both sides. Files that an
// earlier, killed merge has written are no reason.
func (p *Plan) inTheWay(ctx context.Context, m *branchMerge) (why string, err error) {
	if p.refs.head != "" {
		return "another branch is checked out", nil
	}
	if p.ours.progress() != "" {
		return p.ours.progress() + " is in progress", nil
	}

	staged, err := p.index.staged(ctx, p.ours, m.of.ours)
	if err != nil {
		return "", err
	}

	for _, at := range slices.Sorted(maps.Keys(staged)) {
		if c, ok := m.changed[at]; !ok || !equalEntries(c[1], staged[at]) {
			return at + " is staged", nil
		}
	}

	there, err := p.index.staged(ctx, p.theirs, p.index.heads.theirs)
	if err != nil {
		return "", err
	}

	dirty, err := p.dirty(ctx, m)
	if err != nil {
		return "", err
	}

	for _, at := range slices.Sorted(maps.Keys(m.changed)) {
		e, f := p.theirs.entry(at), p.m.TheirFile(at)
		_, isStaged := there[at]
		switch to := m.changed[at][1]; {
		case dirty[at]:
			return at + " has changes that are not committed", nil
		case isStaged || !p.matches(e, f, p.ours.idLen) && !(f == nil && e.Skip):
			return at + " has changes there that are not committed", nil
		case m.both[at] && to.hasFile() && !to.isRegular():
			return at + " is a link", nil
		}
	}

	return "", nil
}

// dirty returns the files that a merge changes and that the receiving side has in a third version: neither the
// committed nor the merged one.
func (p *Plan) dirty(ctx context.Context, m *branchMerge) (map[string]bool, error) {
	committed := make(paths)
	for at, c := range m.changed {
		committed[at] = c[0]
	}

	dirty, err := p.differing(ctx, committed)
	maps.DeleteFunc(dirty, func(at string, differs bool) bool {
		c, ok := m.changed[at]
		isSubmodule := c[0] != nil && !c[0].hasObject() // as in git merge, a submodule may be at another commit
		return !ok || !differs || isSubmodule || p.matches(c[1], p.ourFile(ctx, at), p.ours.idLen)
	})
	return dirty, err
}

// ourFile returns the file that the receiving side has at a path, nil for none.
func (p *Plan) ourFile(ctx context.Context, at string) *File {
	if p.m.OurFile != nil {
		return p.m.OurFile(at)
	}
	info, err := os.Lstat(filepath.Join(p.m.Ours.Work, at))
	if err != nil {
		return nil
	}

	return &File{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Exec: info.Mode()&0o100 != 0, Blob: func(int) string {
		id, _ := p.receiver.ask(ctx, nil, nil, "hash-object", "--", at) // after an error the id is "", which equals no other id
		return strings.TrimSpace(id)
	}}
}

// A Text is a file that git merged from both sides.
type Text struct {
	Exec bool
	Data []byte // nil: the merge removes the file
}

// Texts returns the files that git merged from both sides, by path, with the bytes that a checkout writes.
func (p *Plan) Texts(ctx context.Context) (map[string]Text, error) {
	out := make(map[string]Text)
	if p.merge == nil {
		return nil, nil
	}

	for at, c := range p.merge.changed {
		to := c[1]
		if !p.merge.both[at] || to != nil && !to.hasFile() {
			continue
		}

		if to == nil {
			out[at] = Text{}
			continue
		}

		data, err := p.asOurs(ctx, nil, nil, "cat-file", "--filters", "--path="+at, to.ID)
		if err != nil {
			return nil, err
		}

		text := []byte(data)
		if slices.Contains(p.merge.left, at) {
			text = bytes.ReplaceAll(text, []byte(">>>>>>> "+p.merge.of.theirs), []byte(">>>>>>> "+p.merge.of.Parked))
			text = bytes.ReplaceAll(text, []byte("<<<<<<< "+p.merge.of.ours), []byte("<<<<<<< HEAD"))
		}

		out[at] = Text{to.Mode&0o111 != 0, text}
	}

	return out, nil
}
