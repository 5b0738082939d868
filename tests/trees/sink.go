package trees

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
	"github.com/amberfs/amberfs/stream"
)

// mapSink keeps a tree in memory.
type mapSink struct {
	t     testing.TB
	Files Spec
	Meta  map[string]stream.Meta
}

func NewMapSink(t testing.TB) *mapSink {
	return &mapSink{t: t, Files: Spec{}, Meta: map[string]stream.Meta{".": {Mode: unix.S_IFDIR}}}
}

func (s *mapSink) Add(e stream.Entry) error {
	p, m, n := e.Path, e.Meta, Node{rdev: e.Rdev, Hard: e.Hardlink, Data: e.Target}
	switch {
	case e.Hardlink != "":
		m, n.Data = s.Meta[e.Hardlink], s.Files[e.Hardlink].Data
	case m.Mode&unix.S_IFMT == unix.S_IFREG:
		data, err := io.ReadAll(whole(e))
		if err != nil {
			return err
		}
		if int64(len(data)) != e.Size {
			return fmt.Errorf("%d bytes instead of %d", len(data), e.Size)
		}
		n.Data = string(data)
	}
	if p != "." {
		if parent := s.Meta[parentOr(p, ".")]; parent.Mode&unix.S_IFMT != unix.S_IFDIR {
			s.t.Errorf("%q came without its directory", p)
		}
	}
	n.Mode, n.Mtime, n.Xattrs = m.Mode, m.Mtime, m.Xattrs
	s.Meta[p], s.Files[p] = m, n
	return nil
}

func parentOr(p, root string) string {
	if d := path.Dir(p); d != "." {
		return d
	}
	return root
}

// Plain is what the sink got, reduced to what git knows.
func (s *mapSink) Plain() Spec {
	out := Spec{}
	for p, n := range s.Files {
		switch {
		case p == ".":
		case n.Mode&unix.S_IFMT == unix.S_IFLNK:
			out[p] = Link(n.Data)
		case n.Mode&unix.S_IFMT == unix.S_IFREG && n.Mode&0o100 != 0:
			out[p] = Exe(n.Data)
		case n.Mode&unix.S_IFMT == unix.S_IFREG:
			out[p] = File(n.Data)
		}
	}
	return out
}

// DiskSink writes a tree to the disk.
type DiskSink struct{ Root string }

func (s DiskSink) at(p string) string { return filepath.Join(s.Root, p) }

func (s DiskSink) Add(e stream.Entry) error {
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
func whole(e stream.Entry) io.Reader {
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

const Mega = 1 << 20

// holes is a file of 3 MiB with data at some places.
func holes() string {
	b := make([]byte, 3*Mega)
	copy(b[Mega:], "in the middle")
	copy(b[2*Mega+5*64<<10:], strings.Repeat("x", 100_000))
	return string(b)
}

func TarTree() Spec {
	long := strings.Repeat(strings.Repeat("n", 120)+"/", 5)
	return Spec{
		"a": File("1\n"), "d/e": Exe("2\n"), "empty": File(""), "d/dir": {Mode: unix.S_IFDIR | 0o1777}, "l": Link("../a"), "h": {Hard: "a"}, "z/h": {Hard: "a"},
		"p": Fifo(), "c": {Mode: unix.S_IFCHR | 0o600, rdev: uint32(unix.Mkdev(1, 3))}, "b": {Mode: unix.S_IFBLK | 0o600, rdev: uint32(unix.Mkdev(259, 70000))},
		"suid": {Mode: unix.S_IFREG | 0o6755, Data: "x"}, long + "f": File("long"), long + "l": Link(long), "\xff\xfe\n": File("odd"), "-x": File("dash"), "caf\xc3\xa9": File("u"),
		"x":      {Mode: unix.S_IFREG | 0o644, Data: "attr", Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte("1\n\x00=")}, {Name: "user.b"}}},
		"sparse": {Mode: unix.S_IFREG | 0o640, Data: holes(), Mtime: 1_700_000_000_123_456_789}, "hole": File(strings.Repeat("\x00", Mega)),
		long + "sparse \xc3\xa9": File(strings.Repeat("\x00", Mega) + "end"), "old": {Mode: unix.S_IFREG | 0o644, Mtime: -1_500_000_000}, "far": {Mode: unix.S_IFREG | 0o644, Mtime: 9_000_000_000_000_000_001},
	}
}

// Want is what a tree looks like when it comes back.
func Want(s Spec) Spec {
	out := Spec{".": {Mode: unix.S_IFDIR | 0o755, Mtime: SomeTime}}
	for p, n := range s {
		for d := path.Dir(p); d != "."; d = path.Dir(d) {
			if _, ok := s[d]; !ok {
				out[d] = Node{Mode: unix.S_IFDIR | 0o755, Mtime: SomeTime}
			}
		}
		if n.Mtime == 0 {
			n.Mtime = SomeTime
		}
		if n.Hard != "" {
			of := s[n.Hard]
			n.Mode, n.Data = of.Mode, of.Data
		}
		if n.Mode == unix.S_IFLNK {
			n.Mode = unix.S_IFLNK | 0o777
		}
		out[p] = n
	}
	return out
}

func SameSpec(t *testing.T, got, want Spec) {
	t.Helper()
	for p, n := range want {
		g, ok := got[p]
		if len(g.Xattrs) == 0 {
			g.Xattrs = nil
		}
		for i := range g.Xattrs {
			if len(g.Xattrs[i].Value) == 0 {
				g.Xattrs[i].Value = nil
			}
		}
		if !ok {
			t.Errorf("%q did not come", p)
		} else if !reflect.DeepEqual(g, n) {
			g.Data, n.Data = g.Data[:min(len(g.Data), 40)], n.Data[:min(len(n.Data), 40)]
			t.Errorf("%q came as %+v, want %+v", p, g, n)
		}
	}
	for p := range got {
		if _, ok := want[p]; !ok {
			t.Errorf("%q came from nowhere", p)
		}
	}
}

func Discard(e stream.Entry) error {
	if e.Data == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, e.Data)
	return err
}
