package live_test

import (
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/fsmodel"
)

// A node is an inode of the model. Two names of a file are two entries with one node.
type node struct {
	id       live.NodeID // 0: not known yet, after a restore
	version  int         // no two changes give the same; entries of a directory do not count
	mode     uint32
	data     []byte // never changed in place
	target   string
	xattrs   map[string]string
	entries  map[string]*node // of a directory
	nameless bool             // O_TMPFILE, and not linked yet
}

func (n *node) is(kind uint32) bool { return n.mode&unix.S_IFMT == kind }
func (n *node) isDir() bool         { return n.is(unix.S_IFDIR) }

func newDir(mode uint32) *node {
	return &node{mode: unix.S_IFDIR | mode, entries: map[string]*node{}}
}

// clone copies a tree.
func (n *node) clone() *node { return n.cloneWith(map[*node]*node{}) }

func (n *node) cloneWith(copied map[*node]*node) *node {
	if c := copied[n]; c != nil {
		return c
	}
	c := *n
	copied[n] = &c
	c.xattrs = maps.Clone(n.xattrs)
	if n.entries != nil {
		c.entries = make(map[string]*node, len(n.entries))
		for name, child := range n.entries {
			c.entries[name] = child.cloneWith(copied)
		}
	}
	return &c
}

// walk calls fn for every name below n, in order.
func (n *node) walk(prefix string, fn func(path string, n *node)) {
	for _, name := range slices.Sorted(maps.Keys(n.entries)) {
		child := n.entries[name]
		fn(prefix+name, child)
		child.walk(prefix+name+"/", fn)
	}
}

// paths are those of the nodes that fit.
func (n *node) paths(fits func(*node) bool) []string {
	var out []string
	n.walk("", func(path string, n *node) {
		if fits(n) {
			out = append(out, path)
		}
	})
	return out
}

func (n *node) count() (names int) {
	n.walk("", func(string, *node) { names++ })
	return names
}

// at is the node of a path, nil if there is none.
func (n *node) at(path string) *node {
	if path == "" {
		return n
	}
	for _, name := range strings.Split(path, "/") {
		if n = n.entries[name]; n == nil {
			return nil
		}
	}
	return n
}

// links is how many names each node of a tree has.
func (n *node) links() map[*node]int {
	out := map[*node]int{}
	n.walk("", func(_ string, n *node) { out[n]++ })
	return out
}

func (n *node) hasHardLinks() bool {
	for n, names := range n.links() {
		if !n.isDir() && names > 1 {
			return true
		}
	}
	return false
}

// below reports whether a directory is n or lies below it.
func (n *node) below(dir *node) bool {
	if n == dir {
		return true
	}
	for _, child := range dir.entries {
		if child.isDir() && n.below(child) {
			return true
		}
	}
	return false
}

// A listing describes the nodes of a tree by path; "" is the root.
type listing = map[string]string

// list describes a tree of the model.
func (n *node) list() listing {
	out, links, first := listing{}, n.links(), map[*node]string{}
	describe := func(path string, n *node) {
		e := fsmodel.Entry{Mode: n.mode, Nlink: links[n], Data: n.data, Target: n.target, Xattrs: n.xattrs}
		switch {
		case n.isDir():
			e.Nlink = 2
			for _, child := range n.entries {
				if child.isDir() {
					e.Nlink++
				}
			}
		case e.Nlink > 1:
			if _, ok := first[n]; !ok {
				first[n] = path
			}
			e.Same = first[n]
		}
		out[path] = e.String()
	}
	describe("", n)
	n.walk("", describe)
	return out
}
