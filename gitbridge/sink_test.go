package gitbridge

import (
	"bytes"
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

func (s *mapSink) put(p string, m Meta, n node) error {
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

func (s *mapSink) Dir(p string, m Meta) error { return s.put(p, m, node{}) }

func (s *mapSink) File(p string, m Meta, size int64, r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if int64(len(data)) != size {
		return fmt.Errorf("%d bytes instead of %d", len(data), size)
	}
	return s.put(p, m, node{data: string(data)})
}

func (s *mapSink) Symlink(p, target string, m Meta) error { return s.put(p, m, node{data: target}) }

func (s *mapSink) Hardlink(p, old string) error {
	return s.put(p, s.meta[old], node{data: s.files[old].data, hard: old})
}

func (s *mapSink) Special(p string, m Meta, rdev uint32) error {
	return s.put(p, m, node{rdev: rdev})
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

func (s diskSink) finish(p string, m Meta) error {
	times := []unix.Timespec{unix.NsecToTimespec(m.Atime), unix.NsecToTimespec(m.Mtime)}
	return unix.UtimesNanoAt(unix.AT_FDCWD, s.at(p), times, unix.AT_SYMLINK_NOFOLLOW)
}

func (s diskSink) Dir(p string, m Meta) error { return os.MkdirAll(s.at(p), 0o755) }

func (s diskSink) File(p string, m Meta, size int64, r io.Reader) error {
	var data bytes.Buffer
	if _, err := data.ReadFrom(r); err != nil {
		return err
	}
	if err := os.WriteFile(s.at(p), data.Bytes(), os.FileMode(m.Mode&0o777)); err != nil {
		return err
	}
	return s.finish(p, m)
}

func (s diskSink) Symlink(p, target string, m Meta) error {
	if err := os.Symlink(target, s.at(p)); err != nil {
		return err
	}
	return s.finish(p, m)
}

func (s diskSink) Hardlink(p, old string) error { return os.Link(s.at(old), s.at(p)) }

func (s diskSink) Special(p string, m Meta, rdev uint32) error {
	return unix.Mknod(s.at(p), m.Mode, int(rdev))
}
