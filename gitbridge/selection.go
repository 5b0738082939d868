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

// selection walks a snapshot as git add walks a working tree, and hands on what
// git would take.
type selection struct {
	*exporter
	w        *writer // nil to count only
	state    *tree.State
	nested   nested
	res      Result
	links    []string   // paths of nested repositories
	filtered []filtered // files that git has to convert

	skeleton *skeleton // nil while git need not be asked
	ignorer  *ignorer
	attrs    *attributes
	staged   map[string]bool // directories whose special files are in the skeleton
}

func newSelection(x *exporter, state *tree.State, w *writer) (*selection, error) {
	s := &selection{exporter: x, w: w, state: state, nested: nested{x.o.Source, state}, staged: make(map[string]bool)}
	s.res.Skipped, s.res.Reduced = []Omission{}, []Omission{}
	if x.o.Gitignore {
		if err := s.askIgnore(); err != nil {
			s.close()
			return nil, err
		}
	}
	if w != nil && (x.set.autoCRLF || exist(x.repo.attributeFiles(x.set))) {
		if err := s.askAttributes(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *selection) close() {
	if s.ignorer != nil {
		_ = s.ignorer.p.fail(nil)
	}
	if s.attrs != nil {
		_ = s.attrs.p.fail(nil)
	}
	if s.skeleton != nil {
		s.skeleton.close()
	}
}

func (s *selection) needSkeleton() (err error) {
	if s.skeleton == nil {
		s.skeleton, err = newSkeleton(s.repo, s.set)
	}
	return err
}

func (s *selection) askIgnore() error {
	if err := s.needSkeleton(); err != nil {
		return err
	}
	var err error
	if s.ignorer, err = newIgnorer(s.ctx, s.skeleton); err != nil {
		s.ignorer = nil
	}
	return err
}

func (s *selection) askAttributes() error {
	if err := s.needSkeleton(); err != nil {
		return err
	}
	var err error
	if s.attrs, err = newAttributes(s.ctx, s.skeleton, s.set.autoCRLF); err != nil {
		s.attrs = nil
	}
	return err
}

// item is one directory entry.
type item struct {
	path string
	node *tree.Inode
}

// everything selects the whole snapshot.
func (s *selection) everything() error {
	root, err := s.state.Resolve(s.o.Source, "")
	if err != nil {
		return fmt.Errorf("reading the snapshot: %w", err)
	}
	return s.dir("", root)
}

// dir selects what is in a directory.
func (s *selection) dir(dir string, n *tree.Inode) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	items, err := s.list(dir, n)
	if err != nil {
		return err
	}
	return s.items(dir, n, items)
}

// list returns the entries of a directory by name.
func (s *selection) list(dir string, n *tree.Inode) ([]item, error) {
	var entries []tree.Dirent
	err := n.Dir.List(s.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		entries = append(entries, e)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("reading directory %q: %w", dir, err)
	}
	slices.SortFunc(entries, func(a, b tree.Dirent) int { return strings.Compare(a.Name, b.Name) })
	items := make([]item, len(entries))
	for i, e := range entries {
		node, err := s.state.Get(s.o.Source, e.Ino)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", path.Join(dir, e.Name), err)
		}
		items[i] = item{path.Join(dir, e.Name), node}
	}
	return items, nil
}

// items selects entries of one directory, whose inode is n.
func (s *selection) items(dir string, n *tree.Inode, items []item) error {
	if err := s.stage(dir, n); err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(it item) bool {
		if path.Base(it.path) != ".git" {
			return false
		}
		if dir != "" { // of the root it is the user's own repository
			s.skip(it.path, dotGit)
		}
		return true
	})
	items, err := s.notIgnored(items)
	if err != nil {
		return err
	}
	var files []item
	for _, it := range items {
		name := path.Base(it.path)
		switch {
		case s.set.names.refuses(name, it.node.IsSymlink()):
			s.skip(it.path, "git refuses this name: some systems take it for git's own")
		case it.node.IsDir():
			if err := s.subdir(it); err != nil {
				return err
			}
		case it.node.IsRegular(), it.node.IsSymlink():
			files = append(files, it)
		default:
			s.skip(it.path, "git has no "+kindOf(it.node))
		}
	}
	return s.files(files)
}

// subdir selects a directory: what is in it, or a link to the repository that
// it is.
func (s *selection) subdir(it item) error {
	gitDir, err := s.nested.gitDir(it.path)
	commit := ""
	if err == nil && gitDir != "" {
		commit, err = s.nested.commit(gitDir)
	}
	switch {
	case errors.Is(err, errOutside):
		s.links = append(s.links, it.path)
		s.skip(it.path, "nested repository whose git directory is not in the snapshot")
		return nil
	case err != nil:
		return fmt.Errorf("looking for a repository in %q: %w", it.path, err)
	case gitDir == "":
		if it.node.Dir.Len() == 0 {
			s.skip(it.path, emptyDir)
			return nil
		}
		return s.dir(it.path, it.node)
	}
	s.links = append(s.links, it.path)
	if len(commit) != s.repo.idLength() {
		s.skip(it.path, "nested repository without a commit that this one can name")
		return nil
	}
	if s.w != nil {
		s.w.set(modeGitlink, commit, it.path)
	}
	s.res.Files++
	s.skip(it.path, "nested repository: only a link to its commit "+commit+" is recorded")
	return nil
}

// Reasons that the next export has to know again.
const (
	dotGit   = "git leaves out everything named .git"
	emptyDir = "git has no empty directories"
)

func (s *selection) skip(path, reason string) {
	s.res.Skipped = append(s.res.Skipped, Omission{path, reason})
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
func (s *selection) notIgnored(items []item) ([]item, error) {
	if s.ignorer == nil || len(items) == 0 {
		return items, nil
	}
	paths := make([]string, len(items))
	for i, it := range items {
		paths[i] = it.path
		// Patterns that end in a slash match directories only.
		if it.node.IsDir() {
			if err := s.skeleton.mkdir(it.path); err != nil {
				return nil, err
			}
		}
	}
	ignored, err := s.ignorer.ignored(paths)
	if err != nil {
		return nil, fmt.Errorf("asking git what is ignored: %w", err)
	}
	kept := items[:0]
	for i, it := range items {
		if ignored[i] {
			s.res.Ignored++
			continue
		}
		kept = append(kept, it)
	}
	return kept, nil
}

// stage copies a directory's .gitignore and .gitattributes to where git can see
// them. Git does not follow them if they are symbolic links.
func (s *selection) stage(dir string, n *tree.Inode) error {
	if s.staged[dir] {
		return nil
	}
	s.staged[dir] = true
	for _, name := range []string{".gitattributes", ".gitignore"} {
		if name == ".gitignore" && s.ignorer == nil || name == ".gitattributes" && s.w == nil {
			continue
		}
		file, err := s.state.Lookup(s.o.Source, n, name)
		if errors.Is(err, tree.ErrNotExist) || err == nil && !file.IsRegular() {
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %q: %w", path.Join(dir, name), err)
		}
		if name == ".gitattributes" && s.attrs == nil {
			if err := s.askAttributes(); err != nil {
				return err
			}
		}
		if err := s.skeleton.write(path.Join(dir, name), file.Content.Reader(s.o.Source.Files)); err != nil {
			return err
		}
	}
	return nil
}
