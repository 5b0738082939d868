package gitbridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Merger merges the git directories of two states. Its method Repositories is a threeway.GitMerger.
type Merger struct {
	// Memory is charged with the memory of git. May be nil.
	Memory *budget.Budget
	// Admit, if set, is called with the size of a file before the file is stored. An error refuses the file.
	Admit func(bytes int64) error
}

// gitMemoryBytes is the memory that a call of Repositories takes from Merger.Memory, for git.
const gitMemoryBytes = 8 << 20

// resolutions are the decisions about conflicts of git's merge that follow from rules.
var resolutions = map[threeway.Rule]gitdir.Resolution{threeway.KeepOurs: gitdir.TakeOurs, threeway.TakeTheirs: gitdir.TakeTheirs}

// A stateMerge is the merge of the git directories of two states, by one call of Repositories.
type stateMerge struct {
	gitMerge
	merger Merger
	sides  threeway.Sides
	copies map[string]*gitdir.Copy // copies of the receiving git directories, by path

	release func() // returns gitMemoryBytes to Merger.Memory
}

// Repositories plans the merge of the git directories of two states. It is a threeway.GitMerger.
//
// Git changes a copy of each receiving git directory, in a temporary directory. The differences become edits. Git
// cannot work in the workspace, because this process serves its mount.
func (m Merger) Repositories(ctx context.Context, in threeway.Sides) (threeway.GitOutcome, error) {
	s := &stateMerge{merger: m, sides: in, copies: make(map[string]*gitdir.Copy), release: func() {}, gitMerge: gitMerge{
		ctx: ctx, git: runGit, src: in.Source, base: in.Base, ours: in.Ours, theirs: in.Theirs, theirName: in.TheirName, theirPhrase: map[bool]string{true: "the directory", false: "the fork"}[in.FromDirectory], fromDirectory: in.FromDirectory, rule: in.Rule,
		answers: mergeAnswers{
			mergesBranches:    func(at string) bool { return in.MergeBranch || in.Rule(at) == threeway.MergeCheckedOut },
			asksAboutBranches: in.RefuseDiverged,
			resolveConflict:   func(at string) gitdir.Resolution { return resolutions[in.Rule(at)] },
			keepsPath:         func(string) bool { return false },
		},
	}}
	s.findReceiver, s.addedOrRemoved, s.carryOut = s.receiverAt, s.addedOrRemovedIn, s.changeCopy
	s.entryAt = func(at string) *tree.Inode { return s.inodeAt(s.ours, at) }
	s.out.Close = func() { s.close(); s.release() }
	err := s.planAll(in.Changes)
	return s.out, err
}

// receiverAt returns the git directory of ours at a path. The receiver's open makes the copy that git changes.
func (s *stateMerge) receiverAt(at string, _ treeFiles, inBase bool) (*receiver, error) {
	ours := treeFiles{s.src, s.ours, at, nil}
	is, err := gitdir.IsGitDir(ours)
	if err != nil || !is {
		return &receiver{absent: true}, err
	}

	to := &receiver{}
	if inBase && s.sides.FromDirectory {
		// If ours has not changed the git directory since the base, it is replaced by the git directory of theirs, even
		// if that is another repository.
		if to.isReplaced, err = tree.Equal(s.ctx, s.src, s.base, s.ours, tree.DiffOptions{Paths: []string{at}}, tree.MtimeDiffers); err != nil {
			return nil, err
		}
	}

	to.open = func(m *gitdir.Merge, work, temp string) error {
		if len(s.copies) == 0 {
			if s.release, err = s.merger.Memory.Take(s.ctx, gitMemoryBytes); err != nil {
				s.release = func() {}
				return err
			}
		}

		m.OurFile = func(name string) *gitdir.File { return fileOf(s.src, s.inodeAt(s.ours, path.Join(work, name))) }
		if s.sides.FromDirectory {
			m.Alternates = alternatesIn(m.Theirs, ours)
		}
		c, err := gitdir.NewCopy(ours, filepath.Join(temp, "copy"), m.Alternates)
		if err != nil {
			return err
		}

		m.Ours, s.copies[at] = c.Repo, c
		return nil
	}
	return to, nil
}

// addedOrRemovedIn returns the paths of the files that ours added or removed in a working tree.
func (s *stateMerge) addedOrRemovedIn(work string) (names []string) {
	s.err = errors.Join(s.err, tree.Diff(s.ctx, s.src, s.base, s.ours, tree.DiffOptions{Paths: []string{work}}, func(c tree.Change) error {
		if (c.Before == nil) != (c.After == nil) {
			names = append(names, c.Path.String())
		}
		return nil
	}))
	return names
}

// changeCopy carries out the plan of a repository in its copy, except in a dry run, and adds an edit for each file that
// git changed.
func (s *stateMerge) changeCopy(r *repoMerge) error {
	if s.sides.DryRun {
		return nil
	}
	err := r.plan.AddObjects(s.ctx)
	if err == nil {
		err = r.plan.CarryOut(s.ctx)
	}
	if err != nil {
		return withENOSPC(fmt.Errorf("the git directory %s: %w", r.Dir, err))
	}

	c := s.copies[r.Dir]
	changed, gone, err := c.ChangedFiles(treeFiles{s.src, s.ours, r.Dir, nil})
	if err != nil {
		return err
	}
	for _, name := range changed {
		file := filepath.Join(c.Repo.Dir, name)
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		if s.merger.Admit != nil {
			if err := s.merger.Admit(info.Size()); err != nil {
				return err
			}
		}

		s.out.Edits = append(s.out.Edits, threeway.Edit{
			Path: path.Join(r.Dir, name), ReadOnly: info.Mode()&0o200 == 0, Open: func() (io.ReadCloser, error) { return os.Open(file) },
		})
	}

	for _, name := range gone {
		s.out.Edits = append(s.out.Edits, threeway.Edit{Path: path.Join(r.Dir, name)})
	}

	return nil
}

// sameFile reports whether a and b, the entries of two states at one path, are equal files, or both nil.
func sameFile(src *tree.Source, a, b *tree.Inode) bool {
	same, err := tree.SameFile(src, a, b)
	return err == nil && same
}

// alternatesIn returns the directories of the host that both sides have as alternates. The copies that HostGit.Linked
// describes have such alternates.
func alternatesIn(theirs, ours gitdir.Files) []string {
	t, _ := theirs.Read(alternatesPath) // no text if there is no such file
	o, _ := ours.Read(alternatesPath)
	return slices.DeleteFunc(strings.Fields(string(t)), func(dir string) bool {
		return !filepath.IsAbs(dir) || !slices.Contains(strings.Fields(string(o)), dir)
	})
}
