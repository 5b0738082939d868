package hostdir

import (
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ignoreName is the name of a file with patterns, as in .gitignore. The paths that match are not applied to the
// directory.
const ignoreName = ".amberignore"

// leftOutPaths returns the changed paths that are not applied:
//
//   - entries that lead to forks;
//   - unless ApplyOptions.Everything is set, paths that .amberignore names, and files that amberfs wrote for agents.
func (pl *planner) leftOutPaths(changes []tree.Change) (map[string]bool, error) {
	out := make(map[string]bool)
	var leftOutChanges []tree.Change
	forks := forkEntries(changes)

	for _, c := range changes {
		switch p := c.Path.String(); {
		case naming.NearestIn(p, forks) != "", leadsToFork(c):
			out[p] = true
		case pl.o.Everything:
			continue
		default:
			isAgent, err := pl.isAgentChange(c)
			if err != nil {
				return nil, err
			}
			if !isAgent {
				continue
			}
			out[p] = true
		}

		leftOutChanges = append(leftOutChanges, c)
	}

	leaveDirs(out, leftOutChanges, changes)
	if pl.o.Everything || len(changes) == 0 || pl.o.Git == nil {
		return out, nil
	}

	paths := make([]string, len(changes))
	for i, c := range changes {
		if paths[i] = c.Path.String(); isDir(c.Before) || isDir(c.After) {
			paths[i] += "/"
		}
	}

	ignored, err := pl.o.Git.Ignored(pl.ctx, filepath.Join(pl.res.Dir, ignoreName), paths)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ignoreName, err)
	}

	for i, is := range ignored {
		if is {
			out[changes[i].Path.String()] = true
		}
	}

	return out, nil
}

// leaveDirs adds new directories to leftOut, the paths that are left out. A new directory is added if it
// contains a path of leftOutChanges, and no change that is applied.
func leaveDirs(leftOut map[string]bool, leftOutChanges, changes []tree.Change) {
	if len(leftOutChanges) == 0 {
		return
	}
	dirs := make(map[string]bool)
	for _, c := range leftOutChanges {
		for dir := c.Path.Dir; dir != nil; dir = dir.Dir {
			dirs[dir.String()] = true
		}
	}

	for _, c := range slices.Backward(changes) { // a directory after its entries
		p := c.Path.String()
		isNew := c.Before == nil && isDir(c.After)
		if isNew && dirs[p] {
			leftOut[p] = true
		} else if c.Path.Dir != nil && !leftOut[p] {
			delete(dirs, c.Path.Dir.String())
		}
	}
}

// topmost returns the paths of changes that are left out, without paths below other returned paths.
func topmost(leftOut map[string]bool, changes []tree.Change) []string {
	var out []string
	for _, c := range changes {
		if leftOut[c.Path.String()] && (c.Path.Dir == nil || !leftOut[c.Path.Dir.String()]) {
			out = append(out, c.Path.Short())
		}
	}

	return out
}

// forkEntries returns git's records of the worktrees that are forks. Forks are not in the directory. `amberfs
// worktree add` puts a file into these records as a mark.
func forkEntries(changes []tree.Change) map[string]bool {
	out := make(map[string]bool)
	for _, c := range changes {
		if m := forkEntryPattern().FindStringSubmatch(c.Path.String()); m != nil {
			out[m[1]] = true
		}
	}

	return out
}

var forkEntryPattern = pattern.New(`^((?:.*/)?\.git/worktrees/[^/]+)/amberfs-link$`)

// leadsToFork reports whether a change creates a symbolic link to a fork of the workspace, such as the link to a
// worktree. The directory has no forks, so the link would lead nowhere.
func leadsToFork(c tree.Change) bool {
	if c.After == nil || !c.After.IsSymlink() {
		return false
	}
	target := c.After.Target
	if !path.IsAbs(target) {
		target = path.Join(path.Dir(c.Path.String()), target)
	}

	return strings.HasPrefix(target, naming.ForksDir+"/")
}

// isAgentChange reports whether amberfs itself made the change of a file, for an agent.
func (pl *planner) isAgentChange(c tree.Change) (bool, error) {
	const maxTextBytes = 1 << 20
	if pl.o.AgentChange == nil || c.After == nil || !c.After.IsRegular() || c.After.Size() > maxTextBytes {
		return false, nil
	}

	check := pl.o.AgentChange(c.Path.String())
	if check == nil {
		return false, nil
	}

	var sides [2][]byte

	for i, n := range []*tree.Inode{c.Before, c.After} {
		if n == nil || !n.IsRegular() || n.Size() > maxTextBytes {
			continue
		}
		var err error
		if sides[i], err = io.ReadAll(n.Content.Reader(pl.o.Source.Files)); err != nil {
			return false, fmt.Errorf("reading %q: %w", c.Path.Short(), err)
		}
	}

	return check(sides[0], sides[1]), nil
}
