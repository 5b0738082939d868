package fsmodel

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// A Source is where choices come from: a random number generator, or a
// property test that wants to make them smaller.
type Source interface {
	// IntN returns a number from 0 up to but not including n.
	IntN(n int) int
}

// Limits bound what [Random] lets a tree grow to.
type Limits struct {
	Files int   // entries in all; beyond it, operations remove
	Size  int64 // bytes of a file
}

var modes = []uint32{0o644, 0o600, 0o755, 0o640}

// mode is one of them. A directory without x shuts its owner out, but for root:
// the model knows no permissions.
func mode(s Source) uint32 {
	m := modes[s.IntN(len(modes))]
	if os.Getuid() != 0 {
		m |= 0o100
	}
	return m
}

// Random draws an operation for a tree. Paths are mostly of existing files, so
// that many operations succeed, and sometimes of what is not.
func Random(s Source, fs *FS, lim Limits) Op {
	op := Op{
		Kind: Kind(s.IntN(int(randomKinds))),
		Fill: byte(s.IntN(256)),
		Mode: mode(s),
		Name: fmt.Sprintf("user.x%d", s.IntN(3)),
	}
	if fs.Files() >= lim.Files && op.Kind <= Link && op.Kind != Write && op.Kind != Append && op.Kind != Truncate {
		op.Kind = Unlink
	}
	// Files matter most: half of what would be other things writes.
	if op.Kind > Copy && s.IntN(3) == 0 {
		op.Kind = Write
	}
	op.Path = pick(s, fs, op.Kind)
	switch op.Kind {
	case Write, Append, Punch:
		op.Off = offset(s, lim.Size/2)
		op.Len = 1 + offset(s, lim.Size/2)
	case Truncate:
		op.Len = offset(s, lim.Size)
	case Symlink:
		op.To = fmt.Sprintf("nowhere/%d", s.IntN(10))
	case Link, Rename, RenameNoReplace, RenameExchange, RenameWhiteout:
		op.To = anyPath(s, fs)
	case Copy:
		op.To = pick(s, fs, Write)
		op.Off, op.ToOff = offset(s, lim.Size/2), offset(s, lim.Size/2)
		op.Len = 1 + offset(s, lim.Size/2)
		// The kernel checks descriptors in an order of its own when one is
		// no regular file; that is no concern of a filesystem.
		if !fs.regular(op.Path) || !fs.regular(op.To) {
			op.Kind, op.To, op.ToOff = Append, "", 0
		}
	}
	// What a device answers depends on the options of the mount.
	if _, _, n, _ := fs.lookup(op.Path); n != nil && n.isWhiteout() && (op.Kind > Create && op.Kind < Mkdir || op.Kind > Chmod) {
		op.Kind, op.To = Unlink, ""
	}
	// A file may not outgrow the limit by appending.
	if op.Kind == Append && fs.size(op.Path)+op.Len > lim.Size {
		op.Kind, op.Len = Truncate, op.Len/2
	}
	return op
}

// offset is a position below n: often small, often on a page.
func offset(s Source, n int64) int64 {
	v := int64(s.IntN(int(max(n, 1))))
	switch s.IntN(4) {
	case 0:
		return v &^ 4095
	case 1:
		return v % 100
	}
	return v
}

// pick is a path that fits the kind of operation most of the time.
func pick(s Source, fs *FS, k Kind) string {
	if s.IntN(10) == 0 {
		return anyPath(s, fs)
	}
	var fits func(n *node) bool
	switch k {
	case Create, Mkdir, Symlink:
		return newPath(s, fs)
	case Write, Append, Truncate, Punch, Copy:
		fits = (*node).isRegular
	case Rmdir:
		fits = (*node).isDir
	case Unlink, Link:
		fits = func(n *node) bool { return !n.isDir() }
	default:
		fits = func(*node) bool { return true }
	}
	if paths := fs.paths(fits); len(paths) > 0 {
		return paths[s.IntN(len(paths))]
	}
	return newPath(s, fs)
}

func anyPath(s Source, fs *FS) string {
	paths := fs.paths(func(*node) bool { return true })
	if len(paths) > 0 && s.IntN(2) == 0 {
		return paths[s.IntN(len(paths))]
	}
	return newPath(s, fs)
}

// newPath is a name in a directory that exists; it may be taken.
func newPath(s Source, fs *FS) string {
	name := fmt.Sprintf("n%d", s.IntN(12))
	dirs := fs.paths((*node).isDir)
	if i := s.IntN(len(dirs) + 1); i < len(dirs) {
		if dir := dirs[i]; len(dir) < 40 {
			return dir + "/" + name
		}
	}
	return name
}

// paths lists what fits, in order.
func (fs *FS) paths(fits func(*node) bool) []string {
	var out []string
	var walk func(prefix string, n *node)
	walk = func(prefix string, n *node) {
		for _, name := range slices.Sorted(maps.Keys(n.children)) {
			c := n.children[name]
			if fits(c) {
				out = append(out, prefix+name)
			}
			walk(prefix+name+"/", c)
		}
	}
	walk("", fs.root)
	return out
}

func (fs *FS) regular(path string) bool {
	n, err := fs.follow(path)
	return err == nil && n.mode&unix.S_IFMT == unix.S_IFREG
}

func (fs *FS) size(path string) int64 {
	n, err := fs.follow(path)
	if err != nil {
		return 0
	}
	return int64(len(n.data))
}
