package gitdir

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// A Resolution is the decision about a path in conflict.
type Resolution int

const (
	Unresolved Resolution = iota // no decision: the branch is not merged
	TakeOurs
	TakeTheirs
	WithMarkers // the file gets conflict markers, and the merge stays in progress
)

// A branchMerge is git's merge of the branch of HEAD, if both sides moved that branch.
type branchMerge struct {
	branch      *DivergedBranch
	treeID      string          // id of the merged tree
	stages      []IndexEntry    // entries of the paths in conflict
	markedPaths []string        // paths in conflict that get conflict markers
	changes     treeDiff        // the changes of the receiving side by the merge
	fromBoth    map[string]bool // has the paths of changes: whether the merged file differs from the HEAD of theirs
}

// NotMerged returns the branch of HEAD, and the reason, if Merge.Resolve is set and the branch cannot be merged.
// Otherwise reason is "".
func (p *Plan) NotMerged() (branch, reason string) {
	for _, d := range p.DivergedBranches {
		if p.merge.Resolve != nil && d.Head && d.NoMerge != "" {
			return d.Branch, d.NoMerge
		}
	}
	return "", ""
}

// decideDiverged sets Plan.DivergedBranches: the commits and conflicts of each branch that both sides moved. It plans
// the merge of the branch of HEAD if Merge.Resolve is set.
func (p *Plan) decideDiverged(ctx context.Context) error {
	p.DivergedBranches = p.refs.diverged
	for _, d := range p.DivergedBranches {
		d.Ahead, d.Theirs = p.scratch.commitsBetween(ctx, d.theirCommit, d.ourCommit)
		d.Behind, d.Ours = p.scratch.commitsBetween(ctx, d.ourCommit, d.theirCommit)
		if d.Head = "ref: "+branches+d.Branch == p.ours.head; !d.Head || p.merge.Ours.Worktree == "" && p.merge.OurFile == nil {
			d.NoMerge = "it is not checked out"
		} else if err := p.tryMerge(ctx, d); err != nil {
			return err
		}

		switch {
		case p.branchMerge == nil || p.branchMerge.branch != d:
			p.refs.note("%s moved on both sides: it stays, and %s has the other commits (`git merge %s`)", d.Branch, d.Parked, d.Parked)
		case len(p.MarkedPaths) > 0:
			p.refs.note("%s moved on both sides, and its merge is to be completed", d.Branch)
		default:
			p.refs.note("%s moved on both sides, and is merged", d.Branch)
		}
	}

	return nil
}

// tryMerge merges the branch of HEAD in the scratch repository, and sets Conflicts and NoMerge of d. The merge
// becomes a part of the plan if Merge.Resolve is set and decides all conflicts, and mergeObstacle returns "".
func (p *Plan) tryMerge(ctx context.Context, d *DivergedBranch) error {
	if err := p.index.convertIndexes(ctx); err != nil {
		return err
	}

	m := &branchMerge{branch: d}
	if err := p.mergeTree(ctx, m); err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}

	d.Conflicts = m.conflicts()

	if p.merge.Resolve != nil {
		if err := p.resolveConflicts(ctx, m); err != nil {
			return err
		}
	}

	var err error
	if m.changes, m.fromBoth, err = p.scratch.compareMerge(ctx, d.ourCommit, p.index.heads.theirs, m.treeID); err != nil {
		return err
	}
	if d.NoMerge, err = p.mergeObstacle(ctx, m); err != nil || d.NoMerge != "" || p.merge.Resolve == nil || len(p.UnresolvedPaths) > 0 {
		return err
	}

	return p.addMerge(ctx, m)
}

// addMerge makes the merge a part of the plan: as a commit, or as a merge in progress if files have conflict markers.
func (p *Plan) addMerge(ctx context.Context, m *branchMerge) error {
	d, h := m.branch, &p.index.heads
	message := "Merge branch '" + d.Parked + "'\n"
	if len(m.markedPaths) > 0 {
		message += "\n# Conflicts:\n#\t" + strings.Join(m.markedPaths, "\n#\t") + "\n"
		p.files.afterIndex = map[string][]byte{"MERGE_MSG": []byte(message), "MERGE_MODE": {}, "MERGE_HEAD": []byte(d.theirCommit + "\n")}
		p.branchMerge, p.MarkedPaths, h.oursAfter = m, m.markedPaths, m.treeID
		return nil
	}

	commit, err := p.commitMerge(ctx, m, message)
	if err != nil {
		d.NoMerge = err.Error()
		return ctx.Err()
	}

	p.refs.updates = slices.DeleteFunc(p.refs.updates, func(u refUpdate) bool { return u.name == branches+d.Parked && u.old == "" })
	p.refs.setRef(branches+d.Branch, d.ourCommit, commit)
	p.branchMerge, h.oursAfter = m, commit

	return nil
}

// commitMerge makes the commit of a merge with the settings of the receiving side, and returns its id. If the
// receiving side only removed commits from the branch, commitMerge returns the commit of theirs instead: a
// fast-forward.
func (p *Plan) commitMerge(ctx context.Context, m *branchMerge, message string) (string, error) {
	if p.scratch.contains(ctx, m.branch.theirCommit, m.branch.ourCommit) {
		return m.branch.theirCommit, nil
	}
	args := []string{"commit-tree", "-p", m.branch.ourCommit, "-p", m.branch.theirCommit}
	if sign, _ := p.askAsOurs(ctx, nil, nil, "config", "--type=bool", "--get", "commit.gpgSign"); strings.TrimSpace(sign) == "true" {
		args = append(args, "-S")
	}

	var env []string
	if p.merge.Ours.Worktree == "" { // a Copy does not have the user's settings, so the name of the last committer is used
		who, err := p.scratch.ask(ctx, nil, nil, "log", "-1", "--format=%cn%n%ce", m.branch.ourCommit)
		name, email, _ := strings.Cut(strings.TrimSpace(who), "\n")
		if err != nil {
			return "", err
		}
		env = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + email, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + email}
	}

	commit, err := p.askAsOurs(ctx, env, strings.NewReader(message), append(args, m.treeID)...)
	return strings.TrimSpace(commit), err
}

// askAsOurs calls git with the settings of the receiving side and the attributes of its working tree. Git writes
// objects to the scratch repository.
func (p *Plan) askAsOurs(ctx context.Context, env []string, stdin io.Reader, args ...string) (string, error) {
	work, err := p.attributeTree(ctx)
	if err != nil {
		return "", err
	}

	own := append(p.scratch.shallowEnv(), "GIT_OBJECT_DIRECTORY="+filepath.Join(p.scratch.gitDir, "objects"))
	return gitCaller{p.merge.Git, p.merge.Ours.Dir, work, own}.ask(ctx, env, stdin, args...)
}

// attributeTree returns a working tree from which git can read attributes: the working tree of the receiving side or,
// if it is not on this machine, a new directory with the .gitattributes files of the index.
func (p *Plan) attributeTree(ctx context.Context) (string, error) {
	if p.merge.Ours.Worktree != "" {
		return p.merge.Ours.Worktree, nil
	}
	work := filepath.Join(p.scratch.gitDir, "attributes")
	if err := os.Mkdir(work, 0o700); err != nil {
		return work, errs.Ignore(err, fs.ErrExist) // an earlier call has made it
	}

	var names strings.Builder
	for _, e := range p.ours.entries() {
		if path.Base(e.Path) == ".gitattributes" {
			names.WriteString(e.Path + "\x00")
		}
	}

	_, err := gitCaller{p.merge.Git, p.merge.Ours.Dir, work, nil}.ask(ctx, nil, strings.NewReader(names.String()), "checkout-index", "-z", "--stdin")
	return work, err
}

// mergeTree merges the commits of both sides as git merge does, and sets m.treeID and m.stages. In the merged
// tree, files in conflict have markers.
func (p *Plan) mergeTree(ctx context.Context, m *branchMerge) error {
	out, err := p.askAsOurs(ctx, nil, nil, "merge-tree", "--write-tree", "--no-messages", "-z", m.branch.ourCommit, m.branch.theirCommit)
	const inConflict = 1
	if err != nil && ExitCode(err) != inConflict {
		return err
	}

	tree, rest, _ := strings.Cut(out, "\x00")
	m.treeID = tree
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

// resolveConflicts asks Merge.Resolve about each path in conflict, and puts the decided files into the merged
// tree (m.treeID).
func (p *Plan) resolveConflicts(ctx context.Context, m *branchMerge) error {
	var info strings.Builder
	for _, at := range m.conflicts() {
		stage := 2

		switch p.merge.Resolve(at) {
		case Unresolved:
			p.UnresolvedPaths = append(p.UnresolvedPaths, at)
			continue
		case WithMarkers:
			m.markedPaths = append(m.markedPaths, at)
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

	env := []string{"GIT_INDEX_FILE=" + filepath.Join(p.scratch.gitDir, "merge-index")}
	_, err := p.scratch.ask(ctx, env, nil, "read-tree", m.treeID)
	if err == nil {
		_, err = p.scratch.ask(ctx, env, strings.NewReader(info.String()), "update-index", "-z", "--index-info")
	}

	if err == nil {
		m.treeID, err = p.scratch.ask(ctx, env, nil, "write-tree", "--missing-ok")
		m.treeID = strings.TrimSpace(m.treeID)
	}

	return err
}

// mergeObstacle returns the reason why a branch cannot be merged, "" if it can be merged. As for git merge, no
// path may be staged, and no file that the merge changes may have uncommitted changes. This holds for both
// sides. Files that an earlier, killed merge has written do not prevent the merge.
func (p *Plan) mergeObstacle(ctx context.Context, m *branchMerge) (reason string, err error) {
	if p.refs.head != "" {
		return "another branch is checked out", nil
	}
	if p.ours.operation() != "" {
		return p.ours.operation() + " is in progress", nil
	}

	for _, e := range m.stages {
		for _, id := range []string{m.branch.ourCommit, m.branch.theirCommit} { // git names a file PATH~COMMIT if a directory has its path
			if name, _, ok := strings.Cut(e.Path, "~"+id); ok {
				return name + " is a file on one side, and a directory on the other", nil
			}
		}
	}

	staged, err := p.index.stagedEntries(ctx, p.ours, m.branch.ourCommit)
	if err != nil {
		return "", err
	}

	for _, at := range slices.Sorted(maps.Keys(staged)) {
		if c, ok := m.changes[at]; !ok || !equalEntries(c[1], staged[at]) {
			return at + " is staged", nil
		}
	}

	theirStaged, err := p.index.stagedEntries(ctx, p.theirs, p.index.heads.theirs)
	if err != nil {
		return "", err
	}

	blocked, err := p.filesInTheWay(ctx, m)
	if err != nil {
		return "", err
	}

	for _, at := range slices.Sorted(maps.Keys(m.changes)) {
		e, f := p.theirs.entry(at), p.merge.TheirFile(at)
		_, isStaged := theirStaged[at]
		switch to := m.changes[at][1]; {
		case blocked[at]:
			return at + " has changes that are not committed", nil
		case isStaged || !p.matches(e, f) && !(f == nil && e.Skip):
			return at + " has changes there that are not committed", nil
		case m.fromBoth[at] && to.hasObject() && !to.isRegular():
			return at + " is a link", nil
		}
	}

	return "", nil
}

// filesInTheWay returns the files that a merge changes and that the receiving side has in a third version: neither the
// committed nor the merged one.
func (p *Plan) filesInTheWay(ctx context.Context, m *branchMerge) (map[string]bool, error) {
	inTheWay, err := p.dirtyPaths(ctx, m.changes)
	maps.DeleteFunc(inTheWay, func(at string, differs bool) bool {
		c, ok := m.changes[at]
		isSubmodule := c[0] != nil && !c[0].hasObject() // as in git merge, a submodule is never in the way, even if it is at another commit
		return !ok || !differs || isSubmodule || p.matches(c[1], p.ourFile(ctx, at))
	})
	return inTheWay, err
}

// ourFile returns the file that the receiving side has at a path, nil for none.
func (p *Plan) ourFile(ctx context.Context, at string) *File {
	if p.merge.OurFile != nil {
		return p.merge.OurFile(at)
	}
	info, err := os.Lstat(filepath.Join(p.merge.Ours.Worktree, at))
	if err != nil {
		return nil
	}

	return &File{Size: info.Size(), Mtime: info.ModTime().UnixNano(), Exec: info.Mode()&0o100 != 0, BlobID: func(int) string {
		id, _ := p.receiver.ask(ctx, nil, nil, "hash-object", "--", at) // after an error the id is "", which equals no other id
		return strings.TrimSpace(id)
	}}
}

// A MergedFile is a file that git merged from both sides.
type MergedFile struct {
	Exec bool
	Data []byte // nil: the merge removes the file
}

// MergedFiles returns the files that git merged from both sides, by path, with the bytes that a checkout writes.
func (p *Plan) MergedFiles(ctx context.Context) (map[string]MergedFile, error) {
	out := make(map[string]MergedFile)
	if p.branchMerge == nil {
		return nil, nil
	}

	for at, c := range p.branchMerge.changes {
		to := c[1]
		if !p.branchMerge.fromBoth[at] || to != nil && !to.hasObject() {
			continue
		}

		if to == nil {
			out[at] = MergedFile{}
			continue
		}

		data, err := p.askAsOurs(ctx, nil, nil, "cat-file", "--filters", "--path="+at, to.ID)
		if err != nil {
			return nil, err
		}

		text := []byte(data)
		if slices.Contains(p.MarkedPaths, at) {
			text = bytes.ReplaceAll(text, []byte(">>>>>>> "+p.branchMerge.branch.theirCommit), []byte(">>>>>>> "+p.branchMerge.branch.Parked))
			text = bytes.ReplaceAll(text, []byte("<<<<<<< "+p.branchMerge.branch.ourCommit), []byte("<<<<<<< HEAD"))
		}

		out[at] = MergedFile{to.Mode&0o111 != 0, text}
	}

	return out, nil
}
