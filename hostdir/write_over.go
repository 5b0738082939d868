package hostdir

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// If a new file replaced a file of another user, or of a group that the user is not in, the owner or group would
// change. Such a file is overwritten instead, as the program in the workspace did. An overwrite is not atomic. If
// it is interrupted, each byte is the old or the new one, and the next apply recognizes such a file
// (isHalfWritten).

// markOverwriteForOwner marks a step for an overwrite if its staged file has another owner or group than n.
func (w *writer) markOverwriteForOwner(dir int, tmp string, s *step, n *tree.Inode) error {
	present, err := statAt(dir, tmp)
	if err != nil || present.st.Uid == n.UID && present.st.Gid == n.GID || os.Geteuid() == 0 {
		return err
	}
	if n.UID != s.original.st.Uid || n.GID != s.original.st.Gid || !n.IsRegular() || s.tempName == "" {
		return fmt.Errorf("changing its owner or group: %w", unix.EPERM)
	}

	parent, err := w.host.parentFD(s.change.Path)
	if err == nil {
		err = unix.Faccessat(parent, s.change.Path.Name, unix.W_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("it is another user's: %w", err)
	}

	s.markOverwrite()

	return nil
}

// markOverwrite marks a step for an overwrite. Hard links of its file are kept.
func (s *step) markOverwrite() {
	s.placement = overwrite
	s.file.path, s.file.id = s.change.Path, s.original.id()
}

// isOnlyOverwritable reports whether a file can be overwritten but not replaced: the user may write the file, but
// cannot create a file in its directory.
func (h *host) isOnlyOverwritable(s *step) bool {
	c := s.change
	if c.Before == nil || c.Before.Ino != c.After.Ino || !c.After.IsRegular() || !s.original.exists || h.isNew(c.Path.Dir) {
		return false
	}
	if s.file.path != nil {
		return false // the file keeps its bytes, or was overwritten through another name
	}

	dir, err := h.parentFD(c.Path)
	return err == nil && isLockedDir(dir) && unix.Faccessat(dir, c.Path.Name, unix.W_OK, unix.AT_EACCESS) == nil
}

// isLockedDir reports whether the user may not change the names in a directory.
func isLockedDir(dir int) bool {
	return errors.Is(unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS), unix.EACCES)
}

// openNewContent returns a file with the content that a step writes: the staged file, or a temporary file without a
// name.
func (w *writer) openNewContent(dir int, s *step) (*os.File, error) {
	if s.tempName != "" {
		return openIn(dir, s.tempName, unix.O_RDONLY)
	}
	f, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	if err := w.fillFile(f, s); err != nil {
		f.Close()
		return nil, err
	}

	return f, nil
}

// unnamedFile returns a temporary file without a name.
func unnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "amberfs-apply-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}

	return f, nil
}

// overwriteFile copies the new content into the existing file.
func (w *writer) overwriteFile(dir int, s *step) error {
	from, err := w.openNewContent(dir, s)
	if err != nil {
		return err
	}
	defer from.Close()

	to, err := openIn(dir, s.change.Path.Name, unix.O_WRONLY)
	if err != nil {
		return err
	}

	err = copyOver(to, from)
	if err = errors.Join(err, to.Close()); err != nil || s.tempName == "" {
		return withoutPath(err)
	}

	return unix.Unlinkat(dir, s.tempName, 0)
}

// copyOver makes the bytes and the holes of a file equal to the bytes and holes of another file.
func copyOver(target, source *os.File) error {
	st, err := source.Stat()
	if err != nil {
		return err
	}

	off := int64(0)

	for _, p := range dataParts(int(source.Fd()), st.Size()) {
		err := punchHole(target, off, p.Off-off)
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(target, p.Off), io.NewSectionReader(source, p.Off, p.N))
		}
		if err != nil {
			return err
		}
		off = p.Off + p.N
	}

	if err := target.Truncate(st.Size()); err != nil {
		return err
	}

	if off < st.Size() { // a hole at the end: punch beyond the size, so that the last block is freed too
		const maxBlockBytes = 64 << 10
		if err := errors.Join(punchHole(target, off, st.Size()-off+maxBlockBytes), target.Truncate(st.Size())); err != nil {
			return err
		}
	}

	return target.Sync()
}

// punchHole makes n bytes of a file a hole or, if the file system has no holes, writes zeros.
func punchHole(f *os.File, off, n int64) error {
	if n == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = io.Copy(io.NewOffsetWriter(f, off), io.LimitReader(zeroReader{}, n))
	}

	return err
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
