package gitbridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Repositories brings the git directories of two states together. It is a threeway.Repositories.
//
// A copy of the receiving one is made in a temporary directory, where git changes it. What differs
// then becomes edits: this process serves the mount, and cannot have git work there.
func (m Merger) Repositories(ctx context.Context, in threeway.Sides) (out threeway.Outcome, err error) {
	r := &gitSides{ctx: ctx, m: m, in: in}
	out.Close = r.close
	var roots []string
	var of map[string][]tree.Change
	if out.Changes, roots, of, err = byRepository(in.Source, in.Base, in.Theirs, in.Changes); err != nil {
		return out, err
	}

	for _, at := range roots {
		rest, err := r.repo(at, of[at])
		if err != nil {
			return out, fmt.Errorf("the git directory %s: %w", at, err)
		}

		out.Changes = append(out.Changes, rest...)
		work, ok := worktreeOf(treeFiles{in.Source, in.Theirs, at})
		if r.plan == nil || !ok {
			continue
		}

		for _, at := range r.plan.Unresolved {
			out.Conflicts = append(out.Conflicts, path.Join(work, at))
		}

		if r.plan.Parted {
			if out.Changes, err = withoutCommitted(ctx, in.Source, r.plan, work, out.Changes, true); err != nil {
				return out, err
			}
		}

		if out.Changes, err = r.follow(work, out.Changes); err != nil {
			return out, err
		}
		if out.Changes, err = r.merge(work, out.Changes); err != nil {
			return out, err
		}
	}

	out.Edits, out.Said = r.edits, r.said
	threeway.SortChanges(out.Changes)

	return out, nil
}

// resolutions are what the rules for files say about a merge of git.
var resolutions = map[threeway.Rule]gitdir.Resolution{threeway.KeepOurs: gitdir.TakeOurs, threeway.TakeTheirs: gitdir.TakeTheirs}

// gitSides is one call of Repositories.
type gitSides struct {
	ctx   context.Context
	m     Merger
	in    threeway.Sides
	temps []*scratch.Dir
	edits []threeway.Edit
	said  []threeway.Repository
	plan  *gitdir.Plan // of the last repository, nil if there is none
}

func (r *gitSides) close() {
	for _, temp := range r.temps {
		_ = temp.Remove() // else another process does
	}
}

func (r *gitSides) say(at string, lines, commits []string) {
	if len(lines) > 0 {
		r.said = append(r.said, threeway.Repository{Dir: at, Lines: lines, Commits: commits})
	}
}

// repo brings one git directory together. rest are its changes that are files: all, if only one side
// has it.
func (r *gitSides) repo(at string, changes []tree.Change) (rest []tree.Change, err error) {
	r.plan = nil
	in := r.in
	base, was, hadOne, err := repositoryIn(in.Source, in.Base, at)
	if err != nil {
		return nil, err
	}

	theirs, now, hasOne, err := repositoryIn(in.Source, in.Theirs, at)
	if err != nil {
		return nil, err
	}

	ours, _, receives, err := repositoryIn(in.Source, in.Ours, at)
	if err != nil {
		return nil, err
	}
	if receives && hadOne && in.FromDirectory {
		// The copy of a directory that nobody has changed becomes as the directory is, even if another
		// repository is there now, or none.
		unchanged, err := tree.Equal(r.ctx, in.Source, in.Base, in.Ours, tree.DiffOptions{Paths: []string{at}}, tree.Mtime)
		if err != nil || unchanged {
			return changes, err
		}
	}

	switch {
	case !receives && (!hadOne || !hasOne):
		return changes, nil
	case !receives:
		r.say(at, []string{"it is gone here: what git did there stays there"}, nil)
		return nil, nil
	case !hasOne:
		above, err := in.Theirs.At(in.Source, path.Dir(at))
		if err == nil && above == nil && path.Dir(at) != "." {
			return changes, nil
		}
		r.say(at, []string{"the git directory is gone there: this one stays as it is"}, nil)
		return nil, nil
	}

	m := &gitdir.Merge{Git: gitRunner, Base: base, Theirs: theirs, Name: in.Name}
	m.Prefer = func(branch string) bool { return in.Rule(at+"/refs/heads/"+branch) == threeway.TakeTheirs && !in.Merge }
	m.Another = !hadOne || !in.FromDirectory && was.Ino != now.Ino
	if !hadOne {
		m.Base = nil
	}

	if work, ok := worktreeOf(theirs); ok {
		m.TheirFile = func(p string) *gitdir.File { return fileAt(in.Source, in.Theirs, path.Join(work, p)) }
		m.OurFile = func(p string) *gitdir.File { return fileAt(in.Source, in.Ours, path.Join(work, p)) }
		if in.Merge {
			m.Resolve = func(p string) gitdir.Resolution { return resolutions[in.Rule(path.Join(work, p))] }
		}
	}

	if m.Another = m.Another && in.Rule(at) != threeway.KeepOurs; in.Rule(at) == threeway.KeepOurs && !hadOne {
		return nil, nil
	}

	if hadOne {
		if same, err := gitdir.Same(base, theirs); err != nil || same {
			return filesIn(at, changes, m, false), err
		}
	}

	if _, err := exec.LookPath("git"); err != nil {
		r.say(at, []string{"git is not installed: refs, commits and the index are left out"}, nil)
		return filesIn(at, changes, m, false), nil
	}

	err = r.bring(at, m, ours)
	if errors.Is(err, gitdir.ErrKind) {
		r.say(at, []string{"left out: " + err.Error()}, nil)
		return nil, nil
	}

	return filesIn(at, changes, m, false), err
}

// filesIn are those changes of a git directory that are files. Of one that lies elsewhere there are none,
// and none of another repository.
func filesIn(at string, changes []tree.Change, m *gitdir.Merge, elsewhere bool) (files []tree.Change) {
	for _, c := range changes {
		if rel, below := strings.CutPrefix(c.Path.String(), at+"/"); below && !elsewhere && !m.Another && gitdir.IsFile(rel) {
			files = append(files, c)
		}
	}
	return files
}

// bring merges in a copy of the receiving git directory.
func (r *gitSides) bring(at string, m *gitdir.Merge, ours treeFiles) error {
	release, err := r.m.Memory.Take(r.ctx, gitMemory)
	if err != nil {
		return err
	}
	defer release()

	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return fmt.Errorf("making a temporary directory: %w", err)
	}

	r.temps = append(r.temps, temp)
	if r.in.FromDirectory {
		m.Alternates = alternatesIn(m.Theirs, ours)
	}

	c, err := gitdir.NewCopy(ours, filepath.Join(temp.Path, "copy"), m.Alternates)
	if err != nil {
		return err
	}

	m.Ours = c.Repo
	if r.plan, err = m.Plan(r.ctx, filepath.Join(temp.Path, "plan")); err != nil {
		return err
	}
	if err := refusedMerge(r.plan); err != nil {
		return err
	}

	r.say(at, r.plan.Lines, r.plan.Commits)
	if r.in.DryRun || r.plan.Empty() {
		return nil
	}
	if err = r.plan.AddObjects(r.ctx); err == nil {
		err = r.plan.Commit(r.ctx)
	}
	if err != nil {
		return noSpace(err)
	}

	changed, gone, err := c.Changed(ours)
	for _, name := range changed {
		file := filepath.Join(c.Repo.Dir, name)
		if info, serr := os.Stat(file); serr == nil && r.m.Admit != nil {
			if err := r.m.Admit(info.Size()); err != nil {
				return err
			}
		}

		r.edits = append(r.edits, threeway.Edit{Path: path.Join(at, name), Open: func() (io.ReadCloser, error) { return os.Open(file) }})
	}

	for _, name := range gone {
		r.edits = append(r.edits, threeway.Edit{Path: path.Join(at, name)})
	}

	return err
}

// follow gives files that are as HEAD had them what theirs has, if HEAD becomes theirs, whatever the base
// had. It returns the other changes.
func (r *gitSides) follow(work string, changes []tree.Change) ([]tree.Change, error) {
	behind, err := r.plan.Behind(r.ctx)
	followed := make(map[string]bool)

	for rel, asCommitted := range behind {
		at := path.Join(work, rel)
		var has [3]*tree.Inode
		for i, st := range []*tree.State{r.in.Base, r.in.Ours, r.in.Theirs} {
			if has[i], err = (treeFiles{r.in.Source, st, at}).lookup("."); err != nil {
				return nil, err
			}
		}

		base, ours, theirs := has[0], has[1], has[2]

		other := func(n *tree.Inode) bool { return n != nil && !n.IsRegular() && !n.IsSymlink() }
		if other(ours) || other(theirs) || sameFile(r.in.Source, base, ours) || sameFile(r.in.Source, ours, theirs) || !asCommitted(fileOf(r.in.Source, ours)) {
			continue
		}

		edit := threeway.Edit{Path: at}
		switch {
		case theirs == nil:
		case theirs.IsSymlink():
			edit.Target = theirs.Target
		default:
			edit.Mode = theirs.Mode
			edit.Open = func() (io.ReadCloser, error) { return io.NopCloser(theirs.Content.Reader(r.in.Source.Files)), nil }
		}

		r.edits, followed[at] = append(r.edits, edit), true
	}

	return slices.DeleteFunc(changes, func(c tree.Change) bool { return followed[c.Path.String()] }), err
}

// merge gives files what git makes of both sides. It returns the other changes.
func (r *gitSides) merge(work string, changes []tree.Change) ([]tree.Change, error) {
	texts, err := r.plan.Texts(r.ctx)
	merged := make(map[string]bool)

	for rel, text := range texts {
		edit := threeway.Edit{Path: path.Join(work, rel)}
		merged[edit.Path] = true
		if text.Data != nil {
			mode := uint32(unix.S_IFREG | 0o644)
			if n, err := r.in.Ours.At(r.in.Source, edit.Path); err == nil && n != nil && n.IsRegular() {
				mode = n.Mode
			}

			edit.Mode = threeway.Executable(mode, text.Exec)
			edit.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text.Data)), nil }
		}

		r.edits = append(r.edits, edit)
	}

	return slices.DeleteFunc(changes, func(c tree.Change) bool { return merged[c.Path.String()] }), err
}

// sameFile reports whether two states have the same at a path, or nothing.
func sameFile(src *tree.Source, a, b *tree.Inode) bool {
	if a == nil || b == nil {
		return a == b
	}
	same, err := tree.SameFile(src, a, b)
	return err == nil && same
}

// alternatesIn returns the directories with objects that both sides read, as the copies of a git
// directory from elsewhere do.
func alternatesIn(theirs, ours gitdir.Files) (out []string) {
	t, terr := theirs.Read(alternatesPath)
	o, oerr := ours.Read(alternatesPath)
	if terr != nil || oerr != nil {
		return nil
	}

	for _, dir := range strings.Fields(string(t)) {
		if filepath.IsAbs(dir) && slices.Contains(strings.Fields(string(o)), dir) {
			out = append(out, dir)
		}
	}

	return out
}
