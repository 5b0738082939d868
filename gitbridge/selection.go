package gitbridge

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
	"golang.org/x/sys/unix"
)

// Modes of entries in git trees.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeSymlink = 0o120000
	modeGitlink = 0o160000
)

// item is one directory entry.
type item struct {
	path string
	node *tree.Inode
}

func pathsOf(items []item) []string {
	paths := make([]string, len(items))
	for i, it := range items {
		paths[i] = it.path
	}
	return paths
}

// exportDir puts the contents of a directory into the commit.
func (x *exporter) exportDir(dir string, n *tree.Inode) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}

	var entries []tree.Dirent
	err := n.Dir.List(x.options.Source, 0, func(e tree.Dirent, _ uint64) bool {
		if isRuleFile(e.Name) || x.changeSet.contains(path.Join(dir, e.Name)) {
			entries = append(entries, e)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("reading directory %q: %w", dir, err)
	}

	slices.SortStableFunc(entries, func(a, b tree.Dirent) int { return strings.Compare(a.Name, b.Name) })
	var items []item
	for _, e := range entries {
		it := item{path: path.Join(dir, e.Name)}
		if it.node, err = x.options.State.Get(x.options.Source, e.Ino); err != nil {
			return fmt.Errorf("reading %q: %w", it.path, err)
		}

		// git reads the rules from the worktree, so they are written before git is asked about files.
		// Unchanged rules are needed for changed files too. git does not follow links to rules.
		if isRuleFile(e.Name) && it.node.IsRegular() && it.node.Size() <= maxRulesBytes {
			if err := x.worktree.write(it.path, it.node.Content.Reader(x.options.Source.Files)); err != nil {
				return err
			}
		}

		switch {
		case !x.changeSet.contains(it.path), it.path == ".git": // the .git at the root is never exported, and not reported
		case e.Name == ".git":
			x.leaveOut(it.path, "git leaves out everything named .git")
		default:
			items = append(items, it)
		}
	}

	if items, err = x.notIgnored(items); err != nil {
		return err
	}

	var files, dirs []item

	for _, it := range items {
		name := path.Base(it.path)
		switch {
		case x.settings.names.refuses(name, it.node.IsSymlink()):
			x.leaveOut(it.path, "git refuses this name, because some systems read it as .git")
		case it.node.IsDir():
			dirs = append(dirs, it)
		case it.node.IsRegular(), it.node.IsSymlink():
			files = append(files, it)
		default:
			kind := map[uint32]string{unix.S_IFIFO: "FIFOs", unix.S_IFSOCK: "sockets"}[it.node.Mode&unix.S_IFMT]
			x.leaveOut(it.path, "git has no "+cmp.Or(kind, "devices"))
		}
	}

	if x.changeSet == nil && len(files) >= minMktreeFiles {
		err = x.writer.makeTree(dir, func() error { return x.exportFiles(files) })
	} else {
		err = x.exportFiles(files)
	}
	if err != nil {
		return err
	}

	for _, it := range dirs {
		if err := x.exportSubdir(it); err != nil {
			return err
		}
	}

	return nil
}

// isRuleFile reports whether git reads rules from files with this name.
func isRuleFile(name string) bool { return name == ".gitattributes" || name == ".gitignore" }

// exportSubdir puts a directory into the commit: its contents or, for a nested repository, a link to its
// commit.
func (x *exporter) exportSubdir(it item) error {
	commit, isRepo, err := x.nested.checkedOut(it)
	if isRepo || errors.Is(err, errOutside) {
		x.links[it.path] = true
		x.writer.remove(it.path) // the path may be a directory with files in the base
	}

	switch {
	case errors.Is(err, errOutside):
		x.leaveOut(it.path, "nested repository whose git directory is not in the snapshot")
		return nil
	case err != nil:
		return fmt.Errorf("looking for a repository in %q: %w", it.path, err)
	case !isRepo:
		if it.node.Dir.Len() == 0 {
			x.leaveOut(it.path, "git has no empty directories")
			return nil
		}

		u := x.changeSet
		if u != nil && u.links[it.path] {
			x.changeSet = nil // the directory was a nested repository in the base: all its files are new
		}

		err := x.exportDir(it.path, it.node)
		x.changeSet = u

		return err
	}

	if len(commit) != x.repo.idLength() {
		x.leaveOut(it.path, "nested repository without a commit")
		return nil
	}

	x.writer.addEntry(modeGitlink, commit, it.path)
	x.result.Files++
	x.leaveOut(it.path, "nested repository: only a link to its commit "+commit+" is recorded")

	return nil
}

func (x *exporter) leaveOut(path, reason string) {
	x.result.Skipped = append(x.result.Skipped, stream.Omission{Path: path, Reason: reason})
}

// notIgnored returns the items that git add would not ignore. It reuses the array of items.
func (x *exporter) notIgnored(items []item) ([]item, error) {
	if !x.options.Gitignore {
		return items, nil
	}

	for _, it := range items {
		// Patterns that end in a slash match directories only.
		if it.node.IsDir() {
			if err := x.worktree.mkdir(it.path); err != nil {
				return nil, err
			}
		}
	}

	ignored, err := x.worktree.askIgnored(x.ctx, pathsOf(items))
	if err != nil {
		return nil, err
	}

	kept := items[:0]
	for i, it := range items {
		if !ignored[i] {
			kept = append(kept, it)
		}
	}

	x.result.Ignored += len(items) - len(kept)

	return kept, nil
}
