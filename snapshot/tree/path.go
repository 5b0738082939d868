package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxAncestors bounds the way from an inode up to the root. Only a damaged tree
// that has a ring in it reaches it; a path of that many names would be 64 KiB.
const maxAncestors = 1 << 15

// splitPath returns the names of a path below the root; "" and "." are the root
// itself. ErrBadPath if it is absolute or not in its shortest form.
func splitPath(path string) ([]string, error) {
	if path == "" || path == "." {
		return nil, nil
	}
	names := strings.Split(path, "/")
	for _, n := range names {
		if n == "" || n == "." || n == ".." || strings.IndexByte(n, 0) >= 0 {
			return nil, fmt.Errorf("%q: %w", path, ErrBadPath)
		}
	}
	return names, nil
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
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

// Paths returns every path of an inode, in order of bytes by component; none for
// one that has no name any more. The root's only path is "".
func (s *State) Paths(src *Source, n *Inode) ([]string, error) {
	if n.Ino == RootIno {
		return []string{""}, nil
	}
	var paths []string
	for _, l := range n.Links {
		dir, err := s.dirPath(src, l.Parent)
		if err != nil {
			return nil, fmt.Errorf("path of inode %d: %w", n.Ino, err)
		}
		paths = append(paths, joinPath(dir, l.Name))
	}
	slices.SortFunc(paths, comparePaths)
	return paths, nil
}

// dirPath returns the path of a directory.
func (s *State) dirPath(src *Source, ino uint64) (string, error) {
	var names []string
	for ino != RootIno {
		n, err := s.Get(src, ino)
		if err != nil {
			return "", err
		}
		if len(n.Links) != 1 {
			return "", fmt.Errorf("directory %d has %d names", ino, len(n.Links))
		}
		if len(names) == maxAncestors {
			return "", errors.New("directories form a ring")
		}
		names = append(names, n.Links[0].Name)
		ino = n.Links[0].Parent
	}
	slices.Reverse(names)
	return strings.Join(names, "/"), nil
}

// comparePaths orders paths by component, so that a directory is followed by
// what is below it and only then by its longer namesakes ("a", "a/b", "a.c").
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}
