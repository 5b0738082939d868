package live_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
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
type listing map[string]string

// An entry is what a listing says of one node.
type entry struct {
	mode   uint32
	nlink  int
	data   []byte
	target string
	xattrs map[string]string
	same   string // the first path of the same inode
}

func (e entry) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%o nlink %d", e.mode, e.nlink)
	switch e.mode & unix.S_IFMT {
	case unix.S_IFREG:
		fmt.Fprintf(&b, " %d bytes %08x", len(e.data), crc32.ChecksumIEEE(e.data))
	case unix.S_IFLNK:
		fmt.Fprintf(&b, " -> %s", e.target)
	}
	for _, name := range slices.Sorted(maps.Keys(e.xattrs)) {
		fmt.Fprintf(&b, " %s=%s", name, e.xattrs[name])
	}
	if e.same != "" {
		fmt.Fprintf(&b, " same as %s", e.same)
	}
	return b.String()
}

// list describes a tree of the model.
func (n *node) list() listing {
	out, links, first := listing{}, n.links(), map[*node]string{}
	describe := func(path string, n *node) {
		e := entry{mode: n.mode, nlink: links[n], data: n.data, target: n.target, xattrs: n.xattrs}
		switch {
		case n.isDir():
			e.nlink = 2
			for _, child := range n.entries {
				if child.isDir() {
					e.nlink++
				}
			}
		case e.nlink > 1:
			if _, ok := first[n]; !ok {
				first[n] = path
			}
			e.same = first[n]
		}
		out[path] = e.String()
	}
	describe("", n)
	n.walk("", describe)
	return out
}

// difference says on which paths two listings differ, "" for none.
func difference(want, got listing) string {
	all := maps.Clone(want)
	maps.Copy(all, got)
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if want[path] != got[path] && b.Len() < 2000 {
			fmt.Fprintf(&b, "  %q\n    want %s\n    got  %s\n", path, want[path], got[path])
		}
	}
	return b.String()
}

// splice is data with p written at off.
func splice(data []byte, off int64, p []byte) []byte {
	out := make([]byte, max(int64(len(data)), off+int64(len(p))))
	copy(out, data)
	copy(out[off:], p)
	return out
}

func resize(data []byte, size int64) []byte {
	if size <= int64(len(data)) {
		return bytes.Clone(data[:size])
	}
	return splice(data, int64(len(data)), make([]byte, size-int64(len(data))))
}
