package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxDepth is the largest number of names in a path, which limits every walk. The path of a directory has fewer
// names. Only a damaged tree with a ring of directories, or a forged store, has longer paths.
const MaxDepth = 1 << 13

// splitPath returns the names of a path relative to the root; "" and "." are the root
// itself. The error is ErrBadPath if the path is absolute or not in its shortest form.
func splitPath(path string) ([]string, error) {
	if path == "" || path == "." {
		return nil, nil
	}
	names := strings.Split(path, "/")
	for _, n := range names {
		if CheckName(n) != nil {
			return nil, fmt.Errorf("%q: %w", path, ErrBadPath)
		}
	}

	return names, nil
}

// ComparePaths orders paths by their components, as Walk does: a directory comes before all paths
// below it, and these come before the next entry of its parent.
func ComparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/': // the component of a is shorter
			return -1
		case y == '/':
			return 1
		default:
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

// Resolve returns the inode at a path relative to the root; "" and "." are the
// root. Symbolic links are never followed: a path that leads through one fails
// with ErrSymlink. Other errors are ErrNotExist, ErrNotDir and ErrBadPath.
func (s *State) Resolve(src *Source, path string) (*Inode, error) {
	names, err := splitPath(path)
	if err != nil {
		return nil, err
	}

	n, err := s.Get(src, RootIno)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}

	for _, name := range names {
		if n.IsSymlink() {
			return nil, fmt.Errorf("%s: %w", path, ErrSymlink)
		}
		if n, err = s.Lookup(src, n, name); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}

	return n, nil
}

// InodeAt returns the inode at a path, as Resolve does. If the state has no such path, it returns nil and no
// error.
func (s *State) InodeAt(src *Source, path string) (*Inode, error) {
	n, err := s.Resolve(src, path)
	if errors.Is(err, ErrNotExist) || errors.Is(err, ErrNotDir) || errors.Is(err, ErrSymlink) {
		return nil, nil
	}
	return n, err
}

// Paths returns the paths of an inode other than the root, in no order.
func (s *State) Paths(src *Source, n *Inode) ([]string, error) {
	all := make([]string, 0, len(n.Links))

	for _, link := range n.Links {
		p := link.Name

		for ino, depth := link.Parent, 0; ino != RootIno; depth++ {
			dir, err := s.Get(src, ino)
			if err != nil {
				return nil, err
			}

			up, err := dir.Parent()
			if err != nil {
				return nil, err
			}
			if depth == MaxDepth {
				return nil, ErrTooDeep
			}
			p, ino = up.Name+"/"+p, up.Parent
		}

		all = append(all, p)
	}

	return all, nil
}

// A Path is the list of names from the root to a file. The path of the root is nil. A Path shares memory with the
// paths of the directories above, so that all paths of a deep tree together take no more memory than their names.
type Path struct {
	Dir    *Path
	Name   string
	depth  int
	length int // length of the path as a string, in bytes
}

// Child returns the path of an entry of the directory at p. If it has more than MaxDepth names, the error is
// ErrTooDeep.
func (p *Path) Child(name string) (*Path, error) {
	if p != nil && p.depth == MaxDepth {
		return nil, ErrTooDeep
	}
	return p.ChildUnchecked(name), nil
}

// ChildUnchecked does what Child does, without the limit. It is for callers that have checked the depth.
func (p *Path) ChildUnchecked(name string) *Path {
	if p == nil {
		return &Path{Name: name, depth: 1, length: len(name)}
	}
	return &Path{Dir: p, Name: name, depth: p.depth + 1, length: p.length + 1 + len(name)}
}

// ParsePath returns the Path of a path relative to the root, in the form that Resolve accepts.
func ParsePath(path string) (p *Path, err error) {
	names, err := splitPath(path)
	if err != nil {
		return nil, err
	}

	for _, name := range names {
		if p, err = p.Child(name); err != nil {
			return nil, err
		}
	}

	return p, nil
}

// IsUnder reports whether p is dir or a path below dir.
func (p *Path) IsUnder(dir *Path) bool {
	for p.Depth() > dir.Depth() {
		p = p.Dir
	}

	for ; p != dir; p, dir = p.Dir, dir.Dir {
		if p == nil || dir == nil || p.Name != dir.Name {
			return false
		}
	}

	return true
}

// Depth returns the number of names in the path.
func (p *Path) Depth() int {
	if p == nil {
		return 0
	}
	return p.depth
}

// Len returns the length of the string.
func (p *Path) Len() int {
	if p == nil {
		return 0
	}
	return p.length
}

// String returns the names with slashes in between, "" for the root.
func (p *Path) String() string { return p.tail(p.Len()) }

// Short returns the string, or only its end if it is longer than a program can use (PATH_MAX).
func (p *Path) Short() string { return p.tail(min(p.Len(), unix.PathMax-1)) }

// tail returns the last n bytes of the string.
func (p *Path) tail(n int) string {
	b := make([]byte, n)
	for n > 0 {
		part := p.Name[max(0, len(p.Name)-n):]
		n -= copy(b[n-len(part):], part)
		if p = p.Dir; n > 0 {
			n--
			b[n] = '/'
		}
	}

	return string(b)
}

// Parent returns the only name of a directory other than the root. The error is ErrMalformed if the directory
// does not have exactly one name.
func (n *Inode) Parent() (Link, error) {
	if len(n.Links) != 1 {
		return Link{}, fmt.Errorf("%w: directory %d has %d names", ErrMalformed, n.Ino, len(n.Links))
	}
	return n.Links[0], nil
}
