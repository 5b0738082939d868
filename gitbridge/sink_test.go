package gitbridge

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
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
		data, err := io.ReadAll(e.whole())
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
	if d := parentOf(p); d != "" {
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
		if data, err = io.ReadAll(e.whole()); err == nil {
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

// whole reads a file with its holes as zeros.
func (e Entry) whole() io.Reader {
	if !e.Sparse {
		return e.Data
	}
	var all []io.Reader
	at := int64(0)
	for _, p := range e.Parts {
		all = append(all, io.LimitReader(zeros{}, p.Off-at), io.LimitReader(e.Data, p.N))
		at = p.Off + p.N
	}
	return io.MultiReader(append(all, io.LimitReader(zeros{}, e.Size-at))...)
}
