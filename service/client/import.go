package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/internal/importer"
	"github.com/amberfs/amberfs/snapshot"
)

// importTime is when the fork of an import ends by itself, whose command was killed, or
// with the sandbox that it was in.
const importTime = "24h"

// Import brings the tree of an archive in. skip is told of what is left out.
//
// Where only the mount is reached, a fork gets the files, one by one and with the rights
// of this process, and is promoted, which makes all of them visible at one instant.
func (c *Client) Import(ctx context.Context, req service.Import, in io.Reader, skip func(path, reason string)) (done service.Imported, err error) {
	if c.Direct() {
		err = c.Do(ctx, req, Exchange{In: in}, &done)
		return done, err
	}
	ws := Exchange{}
	fork := "import-" + strings.ToLower(rand.Text()[:12])
	if err := c.Do(ctx, service.Fork{Name: fork, TTL: importTime}, ws, nil); err != nil {
		return done, err
	}
	defer func() {
		ctx := context.WithoutCancel(ctx) // also when it was interrupted
		if derr := c.Do(ctx, service.EndFork{Name: fork, Discard: true, Force: true}, ws, nil); err == nil {
			err = derr
		}
	}()
	root, err := os.OpenRoot(filepath.Join(c.target.Root, snapshot.ForksDir, fork))
	if err != nil {
		return done, fail.New(fail.KindOf(err), "cannot write to the fork of the import: %w", err)
	}
	defer root.Close()
	files := &fileSink{root: root, top: path.Clean(string(req.Path)), skip: skip}
	sink, err := importer.Under(importer.Root{Sink: files}, string(req.Path), gitbridge.Meta{
		Mode: unix.S_IFDIR | 0o777&^req.Umask, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mtime: time.Now().UnixNano(),
	})
	if err != nil {
		return done, service.Explain(err)
	}
	o := gitbridge.ImportOptions{Limits: gitbridge.Limits{Entries: req.MaxFiles, Bytes: req.MaxBytes}}
	if req.From != service.FromDir && os.Geteuid() != 0 || req.From == service.FromGit {
		o.Owner = &gitbridge.Owner{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	}
	if err := gitbridge.ReadTar(ctx, in, sink, o); err != nil {
		return done, service.Explain(err)
	}
	if err := files.finish(); err != nil {
		return done, service.Explain(err)
	}
	var promoted service.Promoted
	if err := c.Do(ctx, service.Promote{Fork: fork, Theirs: true}, ws, &promoted); err != nil {
		return done, err
	}
	return service.Imported{Path: string(req.Path), Files: files.files, Bytes: files.bytes, Undo: promoted.Undo}, nil
}

// fileSink writes a tree to a directory. It is a gitbridge.Sink, and nothing it does
// leaves the directory.
type fileSink struct {
	root *os.Root
	top  string // the directory that the tree goes to
	skip func(path, reason string)
	dirs []madeDir // in the order in which they came

	files, bytes int64
}

// madeDir is a directory whose attributes are set at the end: what is made in it would
// change its time, and it may not let anybody write.
type madeDir struct {
	path string
	meta gitbridge.Meta
}

var _ gitbridge.Sink = (*fileSink)(nil)

// room makes the directories above p and takes away what has its name, unless that is
// a directory.
func (s *fileSink) room(p string) error {
	s.files++
	if err := s.root.MkdirAll(path.Dir(p), 0o777); err != nil {
		return err
	}
	st, err := s.root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case st.IsDir():
		return fail.New(fail.Exists, "%s is there already, and a directory", p)
	}
	return s.root.Remove(p)
}

// Dir implements gitbridge.Sink.
func (s *fileSink) Dir(p string, m gitbridge.Meta) error {
	if !strings.HasPrefix(s.top+"/", p+"/") {
		s.files++
	}
	if p != "." {
		if err := s.root.MkdirAll(p, 0o777); err != nil {
			return err
		}
		if err := s.root.Chmod(p, 0o700); err != nil { // see madeDir
			return err
		}
	}
	s.dirs = append(s.dirs, madeDir{p, m})
	return nil
}

// File implements gitbridge.Sink.
func (s *fileSink) File(p string, m gitbridge.Meta, size int64, r io.Reader) error {
	if err := s.room(p); err != nil {
		return err
	}
	f, err := s.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if sparse, ok := r.(gitbridge.SparseReader); ok {
		err = writeParts(f, size, sparse)
	} else {
		_, err = io.CopyN(f, r, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	s.bytes += size
	return s.attributes(p, m)
}

// writeParts writes a file with holes.
func writeParts(f *os.File, size int64, r gitbridge.SparseReader) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	for {
		at, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(f, at), r)
		}
		if err != nil {
			return err
		}
	}
}

// Symlink implements gitbridge.Sink.
func (s *fileSink) Symlink(p, target string, m gitbridge.Meta) error {
	if err := s.room(p); err != nil {
		return err
	}
	if err := s.root.Symlink(target, p); err != nil {
		return err
	}
	return s.attributes(p, m)
}

// Hardlink implements gitbridge.Sink.
func (s *fileSink) Hardlink(p, oldpath string) error {
	if err := s.room(p); err != nil {
		return err
	}
	return s.root.Link(oldpath, p)
}

// Special implements gitbridge.Sink.
func (s *fileSink) Special(p string, m gitbridge.Meta, rdev uint32) error {
	if err := s.room(p); err != nil {
		return err
	}
	err := s.inParent(p, func(dir *os.File, name string) error {
		return unix.Mknodat(int(dir.Fd()), name, m.Mode, int(rdev))
	})
	if errors.Is(err, unix.EPERM) {
		s.skip(p, "a device may only be made by root")
		return nil
	}
	if err != nil {
		return err
	}
	return s.attributes(p, m)
}

// inParent calls fn with the open directory of a path, and its name there.
func (s *fileSink) inParent(p string, fn func(dir *os.File, name string) error) error {
	dir, err := s.root.Open(path.Dir(p))
	if err != nil {
		return err
	}
	defer dir.Close()
	return fn(dir, path.Base(p))
}

// attributes gives a file what it has besides its contents. Who may not give files away
// keeps them.
func (s *fileSink) attributes(p string, m gitbridge.Meta) error {
	return s.inParent(p, func(dir *os.File, name string) error {
		fd := int(dir.Fd())
		err := unix.Fchownat(fd, name, int(m.UID), int(m.GID), unix.AT_SYMLINK_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EINVAL) {
			return err
		}
		for _, x := range m.Xattrs {
			err := unix.Lsetxattr("/proc/self/fd/"+strconv.Itoa(fd)+"/"+name, x.Name, x.Value, 0)
			if err != nil {
				s.skip(p, "attribute "+x.Name+": "+err.Error())
			}
		}
		if m.Mode&unix.S_IFMT != unix.S_IFLNK {
			if err := unix.Fchmodat(fd, name, m.Mode&0o7777, 0); err != nil {
				return err
			}
		}
		times := []unix.Timespec{unix.NsecToTimespec(m.Atime), unix.NsecToTimespec(m.Mtime)}
		return unix.UtimesNanoAt(fd, name, times, unix.AT_SYMLINK_NOFOLLOW)
	})
}

// finish gives directories their attributes, those below first. The root that was there
// before keeps its own.
func (s *fileSink) finish() error {
	for i := len(s.dirs) - 1; i >= 0; i-- {
		d := s.dirs[i]
		if d.path == "." {
			continue
		}
		if err := s.attributes(d.path, d.meta); err != nil {
			return err
		}
	}
	return nil
}
