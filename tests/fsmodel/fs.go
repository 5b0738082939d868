package fsmodel

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// An FS is a model of a directory tree.
type FS struct{ root *node }

// A node is an inode; hard links are two entries with one node.
type node struct {
	mode     uint32 // with the type
	data     []byte
	target   string
	xattrs   map[string]string
	children map[string]*node // of a directory
}

func (n *node) isDir() bool     { return n.mode&unix.S_IFMT == unix.S_IFDIR }
func (n *node) isRegular() bool { return n.mode&unix.S_IFMT == unix.S_IFREG }
func (n *node) isSymlink() bool { return n.mode&unix.S_IFMT == unix.S_IFLNK }

// isWhiteout reports whether a rename left the node in its place.
func (n *node) isWhiteout() bool { return n.mode&unix.S_IFMT == unix.S_IFCHR }

// New is an empty tree.
func New() *FS {
	return &FS{root: &node{mode: unix.S_IFDIR | 0o755, children: map[string]*node{}}}
}

// Clone copies a tree. Data is shared: it is never changed in place.
func (fs *FS) Clone() *FS {
	copied := map[*node]*node{}
	var clone func(n *node) *node
	clone = func(n *node) *node {
		if c, ok := copied[n]; ok {
			return c
		}
		c := &node{mode: n.mode, data: n.data, target: n.target, xattrs: maps.Clone(n.xattrs)}
		copied[n] = c
		if n.children != nil {
			c.children = make(map[string]*node, len(n.children))
			for name, child := range n.children {
				c.children[name] = clone(child)
			}
		}
		return c
	}
	return &FS{root: clone(fs.root)}
}

// Files is how many entries there are in all.
func (fs *FS) Files() int {
	var count func(n *node) int
	count = func(n *node) int {
		sum := len(n.children)
		for _, c := range n.children {
			sum += count(c)
		}
		return sum
	}
	return count(fs.root)
}

// List describes every path but the root: type and mode, contents, number of
// names, target, extended attributes, and the first path of the same inode.
func (fs *FS) List() map[string]string {
	nlink := map[*node]int{}
	var count func(n *node)
	count = func(n *node) {
		for _, c := range n.children {
			if nlink[c]++; c.isDir() {
				count(c)
			}
		}
	}
	count(fs.root)
	list, first := map[string]string{}, map[*node]string{}
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			c, path := n.children[name], prefix+name
			d := Entry{Mode: c.mode, Data: c.data, Target: c.target, Xattrs: c.xattrs}
			if !c.isDir() {
				d.Nlink = nlink[c]
				if d.Nlink > 1 {
					d.Same = path
					if same, ok := first[c]; ok {
						d.Same = same
					}
					first[c] = d.Same
				}
			}
			list[path] = d.String()
			walk(path+"/", c)
		}
	}
	walk("", fs.root)
	return list
}

// An Entry is what a listing says of a path.
type Entry struct {
	Mode   uint32 // with the type
	Nlink  int    // 0 is not printed
	Data   []byte
	Target string
	Xattrs map[string]string
	Same   string // the first path of the same inode, if it has more than one
}

func (d Entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%o", d.Mode)
	if d.Nlink > 0 {
		fmt.Fprintf(&b, " nlink %d", d.Nlink)
	}
	switch d.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		sum := sha256.Sum256(d.Data)
		fmt.Fprintf(&b, " %d bytes %x", len(d.Data), sum[:8])
	case unix.S_IFLNK:
		fmt.Fprintf(&b, " -> %s", d.Target)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Xattrs)) {
		fmt.Fprintf(&b, " %s=%s", name, d.Xattrs[name])
	}
	if d.Same != "" {
		fmt.Fprintf(&b, " same as %s", d.Same)
	}
	return b.String()
}

// Compare says on which paths two lists differ, or "" when they do not.
func Compare(want, got map[string]string) string {
	all := maps.Clone(want)
	maps.Copy(all, got)
	var b strings.Builder
	n := 0
	for _, path := range slices.Sorted(maps.Keys(all)) {
		w, g := want[path], got[path]
		if w == g {
			continue
		}
		if n++; n > 12 {
			continue
		}
		fmt.Fprintf(&b, "  %s\n    want %s\n    got  %s\n", path, orNothing(w), orNothing(g))
	}
	if n > 12 {
		fmt.Fprintf(&b, "  … and %d more\n", n-12)
	}
	return b.String()
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// Replace makes an entry of the root what it is in another tree, as restoring
// one path does. Hard links in either tree are not its business.
func (fs *FS) Replace(name string, from *FS) {
	delete(fs.root.children, name)
	if n, ok := from.Clone().root.children[name]; ok {
		fs.root.children[name] = n
	}
}

// Data returns the bytes of the regular file at a path. ok is false if there is no such file.
func (fs *FS) Data(path string) (data []byte, ok bool) {
	_, _, n, err := fs.lookup(path)
	if err != nil || n == nil || !n.isRegular() {
		return nil, false
	}
	return n.data, true
}
