package gitbridge

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// followRenames has git merge the files that only two of the three states have: in the third, they may have another
// name. It returns the changes that remain for the merge of files.
func (g *gitMerge) followRenames(changes []tree.Change) ([]tree.Change, error) {
	all := make(map[string][]string) // paths by working tree
	for _, c := range changes {
		if !g.mayBeRenamed(c) || slices.Contains(g.out.TakenPaths, c.Path.String()) {
			continue
		}
		if work, ok := g.worktreeAt(c.Path); ok {
			all[work] = append(all[work], c.Path.String())
		}
	}
	if _, err := exec.LookPath("git"); err != nil {
		return changes, nil
	}

	for work, names := range all {
		var err error
		if changes, err = g.mergeRenames(work, names, changes); err != nil {
			return nil, fmt.Errorf("renamed files in %s: %w", work, err)
		}
	}

	return changes, nil
}

// worktreeAt returns the innermost working tree that contains a path. ok reports whether the base has that working tree.
func (g *gitMerge) worktreeAt(p *tree.Path) (dir string, ok bool) {
	for ; p != nil; p = p.Dir {
		dir = path.Join(p.Dir.String(), ".")
		at := path.Join(dir, ".git")
		if ok = g.inodeAt(g.base, at) != nil; ok || g.inodeAt(g.theirs, at) != nil || g.entryAt(at) != nil {
			return dir, ok
		}
	}
	return "", false
}

// mayBeRenamed reports whether two of the three states have different files at the path of a change, and the third
// state has no file.
func (g *gitMerge) mayBeRenamed(c tree.Change) bool {
	other := func(n *tree.Inode) bool { return n != nil && !n.IsRegular() }
	if other(c.Before) || other(c.After) {
		return false
	}

	here := g.entryAt(c.Path.String())
	files := slices.DeleteFunc([]*tree.Inode{c.Before, here, c.After}, func(n *tree.Inode) bool { return n == nil })
	return !other(here) && len(files) == 2 && !sameFile(g.src, files[0], files[1])
}

// mergeRenames has git merge the files of the working tree work whose paths are in renamed. It returns the
// changes that remain for the merge of files: all of them, if git finds conflicts, if the user's answers keep one of the
// files as it is, or if the files are too large.
func (g *gitMerge) mergeRenames(work string, renamed []string, changes []tree.Change) ([]tree.Change, error) {
	names := slices.Clone(renamed)
	for _, c := range changes {
		if _, ok := pathBelow(c.Path.String(), work); ok && (c.Before == nil) != (c.After == nil) {
			names = append(names, c.Path.String())
		}
	}

	if slices.ContainsFunc(renamed, func(at string) bool { return g.entryAt(at) == nil }) {
		names = append(names, g.addedOrRemoved(work)...)
	}

	const maxBytes = 64 << 20
	sides, size := [3]map[string]*gitdir.File{{}, {}, {}}, int64(0)
	slices.Sort(names)
	for _, at := range slices.Compact(names) {
		p, err := tree.ParsePath(at)
		if err != nil {
			return nil, err
		}
		if _, _, inGit := threeway.SplitGitPath(at + "/"); inGit {
			continue
		}
		if in, _ := g.worktreeAt(p); in != work {
			continue // git's merge leaves out the files of a working tree in this one
		}
		for i, n := range []*tree.Inode{g.inodeAt(g.base, at), g.entryAt(at), g.inodeAt(g.theirs, at)} {
			if n != nil && n.IsRegular() {
				sides[i][at], size = fileOf(g.src, n), size+n.Size()
			}
		}
	}
	if size > maxBytes || g.err != nil {
		return changes, g.err
	}

	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { _ = temp.Remove() }() // after an error, another process removes the directory later

	merged, follow, err := gitdir.MergeFiles(g.ctx, g.git, filepath.Join(temp.Path, "git"), sides)
	if merged == nil || slices.ContainsFunc(slices.AppendSeq(slices.Clone(renamed), maps.Keys(merged)), g.answers.keepsPath) {
		return changes, err
	}

	follow = slices.DeleteFunc(follow, func(at string) bool { return !slices.Contains(renamed, at) })
	g.takeFiles("", follow, merged)
	return slices.DeleteFunc(changes, func(c tree.Change) bool { return slices.Contains(renamed, c.Path.String()) }), nil
}

// takeFiles plans that the receiving side takes the files at the paths in follow from theirs, and gets the
// files in merged, which git has merged. All paths are relative to dir. If the receiving side has a directory
// at a path in follow, it is replaced only if theirs has a file there.
func (g *gitMerge) takeFiles(dir string, follow []string, merged map[string]gitdir.MergedFile) {
	sides := func(at string) [2]*tree.Inode { return [2]*tree.Inode{g.inodeAt(g.theirs, at), g.entryAt(at)} }
	for _, at := range follow {
		at = path.Join(dir, at)
		if n := sides(at); n[1] == nil || !n[1].IsDir() || n[0] != nil && !n[0].IsDir() {
			g.out.TakenPaths = append(g.out.TakenPaths, at)
		}
	}

	for _, at := range slices.Sorted(maps.Keys(merged)) {
		file, edit := merged[at], threeway.Edit{Path: path.Join(dir, at)}
		present := sides(edit.Path)
		if file.Data != nil {
			mode := uint32(unix.S_IFREG | 0o644)
			for _, n := range present {
				if n != nil && n.IsRegular() {
					mode, edit.Like = n.Mode, n
				}
			}

			edit.Mode = threeway.ExecutableMode(mode, file.Exec)
			edit.Open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(file.Data)), nil }
		}

		g.out.Edits = append(g.out.Edits, edit)
	}
}
