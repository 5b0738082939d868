package hostdir

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// If a new file replaced a file of another user, or of a group that the user is not in, the owner or group would
// change. Such a file is overwritten instead, as the program in the workspace did. An overwrite is not atomic. If
// it is interrupted, each byte is the old or the new one, and the next apply recognizes such a file
// (halfWritten).

// keepOwner marks a step for an overwrite if its staged file has another owner or group than n.
func (w *writer) keepOwner(dir int, tmp string, s *step, n *tree.Inode) error {
	has, err := statAt(dir, tmp)
	if err != nil || has.st.Uid == n.UID && has.st.Gid == n.GID || os.Geteuid() == 0 {
		return err
	}
	if n.UID != s.seen.st.Uid || n.GID != s.seen.st.Gid || !n.IsRegular() || s.temp == "" {
		return fmt.Errorf("changing its owner or group: %w", unix.EPERM)
	}

	at, err := w.host.dirOf(s.change.Path)
	if err == nil {
		err = unix.Faccessat(at, s.change.Path.Name, unix.W_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("it is another user's: %w", err)
	}

	s.markOverwrite()

	return nil
}

// markOverwrite marks a step for an overwrite. Hard links of its file are kept.
func (s *step) markOverwrite() {
	s.how = overwrite
	s.file.at, s.file.id = s.change.Path, s.seen.id()
}

// isOnlyOverwritable reports whether a file can be overwritten but not replaced: the user may write the file, but
// cannot create a file in its directory.
func (h *host) isOnlyOverwritable(s *step) bool {
	c := s.change
	if c.Before == nil || c.Before.Ino != c.After.Ino || !c.After.IsRegular() || !s.seen.exists || h.isNew(c.Path.Dir) {
		return false
	}
	if s.file.at != nil {
		return false // the file was overwritten through another name
	}

	dir, err := h.dirOf(c.Path)
	return err == nil && lockedDir(dir) && unix.Faccessat(dir, c.Path.Name, unix.W_OK, unix.AT_EACCESS) == nil
}

// lockedDir reports whether the user may not change the names in a directory.
func lockedDir(dir int) bool {
	return errors.Is(unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS), unix.EACCES)
}

// newContent returns a file with the content that a step writes: the staged file, or a temporary file without a
// name.
func (w *writer) newContent(dir int, s *step) (*os.File, error) {
	if s.temp != "" {
		return openIn(dir, s.temp, unix.O_RDONLY)
	}
	f, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	if err := w.fill(f, s); err != nil {
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
	from, err := w.newContent(dir, s)
	if err != nil {
		return err
	}
	defer from.Close()

	to, err := openIn(dir, s.change.Path.Name, unix.O_WRONLY)
	if err != nil {
		return err
	}

	err = copyOver(to, from)
	if err = errors.Join(err, to.Close()); err != nil || s.temp == "" {
		return reason(err)
	}

	return unix.Unlinkat(dir, s.temp, 0)
}

// copyOver makes the bytes and the holes of a file equal to those of another file.
func copyOver(to, from *os.File) error {
	st, err := from.Stat()
	if err != nil {
		return err
	}

	parts, _, err := dataOf(from, st.Size())
	if err != nil || parts == nil {
		parts = []content.DataRange{{N: st.Size()}} // without holes
	}

	at := int64(0)

	for _, p := range parts {
		err := punchHole(to, at, p.Off-at)
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(to, p.Off), io.NewSectionReader(from, p.Off, p.N))
		}
		if err != nil {
			return err
		}
		at = p.Off + p.N
	}

	if err := to.Truncate(st.Size()); err != nil {
		return err
	}

	if at < st.Size() { // a hole at the end: punch beyond the size, so that the last block is freed too
		const block = 64 << 10
		if err := errors.Join(punchHole(to, at, st.Size()-at+block), to.Truncate(st.Size())); err != nil {
			return err
		}
	}

	return to.Sync()
}

func punchHole(f *os.File, at, n int64) error {
	if n == 0 {
		return nil
	}
	err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, n)
	if errors.Is(err, unix.EOPNOTSUPP) {
		_, err = io.Copy(io.NewOffsetWriter(f, at), io.LimitReader(zeros{}, n))
	}

	return err
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
