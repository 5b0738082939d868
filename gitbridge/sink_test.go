package gitbridge

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// mapSink keeps a tree in memory.
type mapSink struct {
	t     testing.TB
	files spec
	meta  map[string]Meta
}

func newMapSink(t testing.TB) *mapSink {
	return &mapSink{t: t, files: spec{}, meta: map[string]Meta{".": {Mode: unix.S_IFDIR}}}
}

func (s *mapSink) add(e Entry) error {
	p, m, n := e.Path, e.Meta, node{rdev: e.Rdev, hard: e.Hardlink, data: e.Target}
	switch {
	case e.Hardlink != "":
		m, n.data = s.meta[e.Hardlink], s.files[e.Hardlink].data
	case m.Mode&unix.S_IFMT == unix.S_IFREG:
		data, err := io.ReadAll(whole(e))
		if err != nil {
			return err
		}
		if int64(len(data)) != e.Size {
			return fmt.Errorf("%d bytes instead of %d", len(data), e.Size)
		}
		n.data = string(data)
	}
	if p != "." {
		if parent := s.meta[parentOr(p, ".")]; parent.Mode&unix.S_IFMT != unix.S_IFDIR {
			s.t.Errorf("%q came without its directory", p)
		}
	}
	n.mode, n.mtime, n.xattrs = m.Mode, m.Mtime, m.Xattrs
	s.meta[p], s.files[p] = m, n
	return nil
}

func parentOr(p, root string) string {
	if d := path.Dir(p); d != "." {
		return d
	}
	return root
}

// plain is what the sink got, reduced to what git knows.
func (s *mapSink) plain() spec {
	out := spec{}
	for p, n := range s.files {
		switch {
		case p == ".":
		case n.mode&unix.S_IFMT == unix.S_IFLNK:
			out[p] = link(n.data)
		case n.mode&unix.S_IFMT == unix.S_IFREG && n.mode&0o100 != 0:
			out[p] = exe(n.data)
		case n.mode&unix.S_IFMT == unix.S_IFREG:
			out[p] = file(n.data)
		}
	}
	return out
}

// diskSink writes a tree to the disk.
type diskSink struct{ root string }

func (s diskSink) at(p string) string { return filepath.Join(s.root, p) }

func (s diskSink) add(e Entry) error {
	var err error
	switch kind := e.Mode & unix.S_IFMT; {
	case e.Hardlink != "":
		return os.Link(s.at(e.Hardlink), s.at(e.Path))
	case kind == unix.S_IFDIR:
		return os.MkdirAll(s.at(e.Path), 0o755)
	case kind == unix.S_IFLNK:
		err = os.Symlink(e.Target, s.at(e.Path))
	case kind == unix.S_IFREG:
		var data []byte
		if data, err = io.ReadAll(whole(e)); err == nil {
			err = os.WriteFile(s.at(e.Path), data, os.FileMode(e.Mode&0o777))
		}
	default:
		return unix.Mknod(s.at(e.Path), e.Mode, int(e.Rdev))
	}
	if err != nil {
		return err
	}
	times := []unix.Timespec{unix.NsecToTimespec(e.Atime), unix.NsecToTimespec(e.Mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, s.at(e.Path), times, unix.AT_SYMLINK_NOFOLLOW)
}

// noughts never ends.
type noughts struct{}

func (noughts) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// whole reads a file with its holes as zeros.
func whole(e Entry) io.Reader {
	if !e.Sparse {
		return e.Data
	}
	var all []io.Reader
	at := int64(0)
	for _, p := range e.Parts {
		all = append(all, io.LimitReader(noughts{}, p.Off-at), io.LimitReader(e.Data, p.N))
		at = p.Off + p.N
	}
	return io.MultiReader(append(all, io.LimitReader(noughts{}, e.Size-at))...)
}

const mega = 1 << 20

// holes is a file of 3 MiB with data at some places.
func holes() string {
	b := make([]byte, 3*mega)
	copy(b[mega:], "in the middle")
	copy(b[2*mega+5*64<<10:], strings.Repeat("x", 100_000))
	return string(b)
}

func tarTree() spec {
	long := strings.Repeat(strings.Repeat("n", 120)+"/", 5)
	return spec{
		"a": file("1\n"), "d/e": exe("2\n"), "empty": file(""), "d/dir": {mode: unix.S_IFDIR | 0o1777}, "l": link("../a"), "h": {hard: "a"}, "z/h": {hard: "a"},
		"p": fifo(), "c": {mode: unix.S_IFCHR | 0o600, rdev: uint32(unix.Mkdev(1, 3))}, "b": {mode: unix.S_IFBLK | 0o600, rdev: uint32(unix.Mkdev(259, 70000))},
		"suid": {mode: unix.S_IFREG | 0o6755, data: "x"}, long + "f": file("long"), long + "l": link(long), "\xff\xfe\n": file("odd"), "-x": file("dash"), "caf\xc3\xa9": file("u"),
		"x":      {mode: unix.S_IFREG | 0o644, data: "attr", xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("1\n\x00=")}, {Name: "user.b"}}},
		"sparse": {mode: unix.S_IFREG | 0o640, data: holes(), mtime: 1_700_000_000_123_456_789}, "hole": file(strings.Repeat("\x00", mega)),
		long + "sparse \xc3\xa9": file(strings.Repeat("\x00", mega) + "end"), "old": {mode: unix.S_IFREG | 0o644, mtime: -1_500_000_000}, "far": {mode: unix.S_IFREG | 0o644, mtime: 9_000_000_000_000_000_001},
	}
}

// want is what a tree looks like when it comes back.
func want(s spec) spec {
	out := spec{".": {mode: unix.S_IFDIR | 0o755, mtime: someTime}}
	for p, n := range s {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if _, ok := s[d]; !ok {
				out[d] = node{mode: unix.S_IFDIR | 0o755, mtime: someTime}
			}
		}
		if n.mtime == 0 {
			n.mtime = someTime
		}
		if n.hard != "" {
			of := s[n.hard]
			n.mode, n.data = of.mode, of.data
		}
		if n.mode == unix.S_IFLNK {
			n.mode = unix.S_IFLNK | 0o777
		}
		out[p] = n
	}
	return out
}

func sameSpec(t *testing.T, got, want spec) {
	t.Helper()
	for p, n := range want {
		g, ok := got[p]
		if len(g.xattrs) == 0 {
			g.xattrs = nil
		}
		for i := range g.xattrs {
			if len(g.xattrs[i].Value) == 0 {
				g.xattrs[i].Value = nil
			}
		}
		if !ok {
			t.Errorf("%q did not come", p)
		} else if !reflect.DeepEqual(g, n) {
			g.data, n.data = g.data[:min(len(g.data), 40)], n.data[:min(len(n.data), 40)]
			t.Errorf("%q came as %+v, want %+v", p, g, n)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%q came from nowhere", p)
		}
	}
}

func discard(e Entry) error {
	if e.Data == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, e.Data)
	return err
}
