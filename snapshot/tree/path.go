package tree

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxDepth bounds the names of a path, and so every walk. The path of a directory has
// fewer. Only a damaged tree with a ring in it, or a store made by others, has more.
const MaxDepth = 1 << 13

// splitPath returns the names of a path below the root; "" and "." are the root
// itself. ErrBadPath if it is absolute or not in its shortest form.
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

// ComparePaths orders paths by their components: a directory comes before its entries, and these
// before what follows the directory.
func ComparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch x, y := a[i], b[i]; {
		case x == y:
		case x == '/':
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
	for i := 0; err == nil && i < len(names); i++ {
		if n.IsSymlink() {
			err = ErrSymlink
		} else {
			n, err = s.Lookup(src, n, names[i])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return n, nil
}

// At is Resolve, but returns nil if there is no such path.
func (s *State) At(src *Source, path string) (*Inode, error) {
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

// A Path is the way from the root to a file. It shares memory with the paths of
// the directories above, so that those of a deep tree take no more than the tree
// does. The root's is nil.
type Path struct {
	Dir    *Path
	Name   string
	depth  int
	length int // of the string
}

// At returns the path of an entry of the directory at p. ErrTooDeep if it has more
// than MaxDepth names.
func (p *Path) At(name string) (*Path, error) {
	if p != nil && p.depth == MaxDepth {
		return nil, ErrTooDeep
	}
	return p.Entry(name), nil
}

// Entry is At without the limit, for a path whose depth was checked before.
func (p *Path) Entry(name string) *Path {
	if p == nil {
		return &Path{Name: name, depth: 1, length: len(name)}
	}
	return &Path{Dir: p, Name: name, depth: p.depth + 1, length: p.length + 1 + len(name)}
}

// ParsePath is for a path relative to the root, as Resolve takes it.
func ParsePath(path string) (p *Path, err error) {
	names, err := splitPath(path)
	for _, name := range names {
		if err == nil {
			p, err = p.At(name)
		}
	}
	return p, err
}

// Depth returns how many names the path has.
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

// Short returns the string, of one that is longer than a program can use (PATH_MAX)
// only the end.
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

// Parent returns the one name of a directory other than the root.
func (n *Inode) Parent() (Link, error) {
	if len(n.Links) != 1 {
		return Link{}, fmt.Errorf("%w: directory %d has %d names", ErrMalformed, n.Ino, len(n.Links))
	}
	return n.Links[0], nil
}
