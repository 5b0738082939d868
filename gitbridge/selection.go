package gitbridge

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/snapshot/tree"
	"golang.org/x/sys/unix"
)

// Modes as git writes them.
const (
	modeFile    = 0o100644
	modeExec    = 0o100755
	modeSymlink = 0o120000
	modeGitlink = 0o160000
)

// needWorktree makes the working tree in which git is asked.
func (x *exporter) needWorktree() (err error) {
	if x.worktree == nil {
		x.worktree, err = newAttrWorktree(x.repo, x.set)
	}
	return err
}

func (x *exporter) askIgnore() (err error) {
	if err = x.needWorktree(); err == nil {
		x.ignorer, err = newIgnorer(x.ctx, x.worktree)
	}
	return err
}

func (x *exporter) askAttributes() (err error) {
	if err = x.needWorktree(); err == nil {
		x.attrs, err = newAttributes(x.ctx, x.worktree)
	}
	return err
}

// item is one directory entry.
type item struct {
	path string
	node *tree.Inode
}

// everything selects the whole snapshot.
func (x *exporter) everything() error {
	root, err := x.o.State.Resolve(x.o.Source, "")
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	return x.dir("", root)
}

// dir selects what is in a directory.
func (x *exporter) dir(dir string, n *tree.Inode) error {
	if err := x.ctx.Err(); err != nil {
		return err
	}
	items, err := x.list(dir, n)
	if err != nil {
		return err
	}
	return x.items(dir, n, items)
}

// list returns the entries of a directory by name.
func (x *exporter) list(dir string, n *tree.Inode) ([]item, error) {
	var entries []tree.Dirent
	err := n.Dir.List(x.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("reading directory %q: %w", dir, err)
	}
	slices.SortFunc(entries, func(a, b tree.Dirent) int { return strings.Compare(a.Name, b.Name) })
	items := make([]item, len(entries))
	for i, e := range entries {
		node, err := x.o.State.Get(x.o.Source, e.Ino)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", path.Join(dir, e.Name), err)
		}
		items[i] = item{path.Join(dir, e.Name), node}
	}
	return items, nil
}

// items selects entries of one directory, whose inode is n.
func (x *exporter) items(dir string, n *tree.Inode, items []item) error {
	if err := x.stage(dir, n); err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(it item) bool {
		if path.Base(it.path) != ".git" {
			return false
		}
		if dir != "" { // of the root it is the user's own repository
			x.leaveOut(it.path, dotGit)
		}
		return true
	})
	items, err := x.notIgnored(items)
	if err != nil {
		return err
	}
	var files []item
	for _, it := range items {
		name := path.Base(it.path)
		switch {
		case x.set.names.refuses(name, it.node.IsSymlink()):
			x.leaveOut(it.path, "git refuses this name, because some systems read it as .git")
		case it.node.IsDir():
			if err := x.subdir(it); err != nil {
				return err
			}
		case it.node.IsRegular(), it.node.IsSymlink():
			files = append(files, it)
		default:
			x.leaveOut(it.path, "git has no "+kindOf(it.node))
		}
	}
	return x.files(files)
}

// subdir selects a directory: what is in it, or a link to the repository that
// it is.
func (x *exporter) subdir(it item) error {
	gitDir, err := x.nested.gitDir(it.path)
	commit := ""
	if err == nil && gitDir != "" {
		commit, err = x.nested.commit(gitDir)
	}
	switch {
	case errors.Is(err, errOutside):
		x.links = append(x.links, it.path)
		x.leaveOut(it.path, "nested repository whose git directory is not in the snapshot")
		return nil
	case err != nil:
		return fmt.Errorf("looking for a repository in %q: %w", it.path, err)
	case gitDir == "":
		if it.node.Dir.Len() == 0 {
			x.leaveOut(it.path, emptyDir)
			return nil
		}
		return x.dir(it.path, it.node)
	}
	x.links = append(x.links, it.path)
	if len(commit) != x.repo.idLength() {
		x.leaveOut(it.path, "nested repository without a commit")
		return nil
	}
	x.w.set(modeGitlink, commit, it.path)
	x.res.Files++
	x.leaveOut(it.path, "nested repository: only a link to its commit "+commit+" is recorded")
	return nil
}

// Reasons that the next export has to know again.
const (
	dotGit   = "git leaves out everything named .git"
	emptyDir = "git has no empty directories"
)

func (x *exporter) leaveOut(path, reason string) {
	x.res.Skipped = append(x.res.Skipped, Omission{path, reason})
}

func kindOf(n *tree.Inode) string {
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFIFO:
		return "FIFOs"
	case unix.S_IFSOCK:
		return "sockets"
	}
	return "devices"
}

// notIgnored drops what git add would ignore.
func (x *exporter) notIgnored(items []item) ([]item, error) {
	if x.ignorer == nil || len(items) == 0 {
		return items, nil
	}
	paths := make([]string, len(items))
	for i, it := range items {
		paths[i] = it.path
		// Patterns that end in a slash match directories only.
		if it.node.IsDir() {
			if err := x.worktree.mkdir(it.path); err != nil {
				return nil, err
			}
		}
	}
	ignored, err := x.ignorer.ignored(paths)
	if err != nil {
		return nil, fmt.Errorf("asking git what is ignored: %w", err)
	}
	kept := items[:0]
	for i, it := range items {
		if ignored[i] {
			x.res.Ignored++
			continue
		}
		kept = append(kept, it)
	}
	return kept, nil
}

// stage copies a directory's .gitignore and .gitattributes to where git can see
// them. Git does not follow them if they are symbolic links.
func (x *exporter) stage(dir string, n *tree.Inode) error {
	if x.staged[dir] {
		return nil
	}
	x.staged[dir] = true
	for _, name := range []string{".gitattributes", ".gitignore"} {
		if name == ".gitignore" && x.ignorer == nil {
			continue
		}
		file, err := x.o.State.Lookup(x.o.Source, n, name)
		if errors.Is(err, tree.ErrNotExist) || err == nil && !file.IsRegular() {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", path.Join(dir, name), err)
		}
		if name == ".gitattributes" && x.attrs == nil {
			if err := x.askAttributes(); err != nil {
				return err
			}
		}
		if err := x.worktree.write(path.Join(dir, name), file.Content.Reader(x.o.Source.Files)); err != nil {
			return err
		}
	}
	return nil
}
