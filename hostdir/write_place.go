package hostdir

import (
	"cmp"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// put renames a staged file to its final name, and removes the file that had the name when the step was planned.
// If another file has the name, such as one that an editor has just saved, this file is kept.
func (w *placer) put(dir int, s *step) error {
	name := s.change.Path.Name

	if !s.seen.exists {
		err := unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			return w.changedMeanwhile(s)
		}
		if cannotRename2(err) {
			return unix.Renameat(dir, s.temp, dir, name)
		}

		return err
	}

	ours, err := w.exchange(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return w.changedMeanwhile(s)
	case cannotRename2(err):
		return w.putOver(dir, s)
	case err != nil:
		return err
	}

	out, err := statAt(dir, s.temp)
	if err == nil && w.isSeen(s, out) {
		if err = unlink(dir, s.temp, out); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		err = nil // a program has created a file in the directory
	}

	if err == nil {
		err = unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_EXCHANGE)
	}
	if err == nil {
		out, err = statAt(dir, s.temp)
	}
	if err == nil && out.key() == ours.key() {
		return w.changedMeanwhile(s)
	}
	if err == nil { // another program replaced the name again: its file is the newest, and keeps the name
		err = unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_EXCHANGE)
	}

	kept := s.temp
	s.temp = "" // the name belongs to another program's file, which must not be removed
	return w.keptError(dir, kept, s, err)
}

// exchange exchanges a staged file with the file that has its final name. The temporary name contains the keys of
// the two files, for sweep.
func (w *placer) exchange(dir int, s *step) (ours hostEntry, err error) {
	if ours, err = statAt(dir, s.temp); err != nil {
		return ours, err
	}

	key := ours.key()
	if s.how == moveName {
		key = "" // the file has no other name, so sweep must never remove it
	}

	temp := w.host.replacedName(key, w.host.seenKey(s.seen))
	if err := unix.Renameat(dir, s.temp, dir, temp); err != nil {
		return ours, err
	}

	s.temp = temp
	if p := s.change.Path.String(); w.host.alias[p] != "" {
		w.host.alias[p] = temp
	}

	return ours, unix.Renameat2(dir, temp, dir, s.change.Path.Name, unix.RENAME_EXCHANGE)
}

// putOver does as put on a file system that cannot exchange names.
func (w *placer) putOver(dir int, s *step) error {
	if s.seen.isDir() != s.change.After.IsDir() {
		if err := unlink(dir, s.change.Path.Name, s.seen); err != nil {
			return err
		}
	}

	if err := unix.Renameat(dir, s.temp, dir, s.change.Path.Name); err != nil {
		return err
	}

	// A rename onto another name of the same file does nothing.
	return errs.Ignore(unix.Unlinkat(dir, s.temp, 0), unix.ENOENT)
}

// unlink removes a file, or an empty directory.
func unlink(dir int, name string, what hostEntry) error {
	if what.isDir() {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

// removeSeen removes the file for which a step was planned. If another file has the name now, this file is kept.
func (w *placer) removeSeen(dir int, s *step) error {
	name := s.change.Path.Name
	temp, err := w.moveOut(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return w.changedMeanwhile(s)
	case cannotRename2(err):
		return unix.Unlinkat(dir, name, 0)
	case err != nil:
		return err
	}

	out, err := statAt(dir, temp)
	if err == nil && w.isSeen(s, out) {
		return unix.Unlinkat(dir, temp, 0)
	}
	if err == nil {
		err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return w.changedMeanwhile(s)
	}

	return w.keptError(dir, temp, s, err)
}

// moveOut renames a file that is to be removed to a temporary name.
func (w *placer) moveOut(dir int, s *step) (temp string, err error) {
	temp = w.host.replacedName("", w.host.seenKey(s.seen))
	return temp, unix.Renameat2(dir, s.change.Path.Name, dir, temp, unix.RENAME_NOREPLACE)
}

// keptError returns the error for another program's file that could not be renamed back to its name.
func (w *placer) keptError(dir int, temp string, s *step, err error) error {
	kept, kerr := setAside(dir, temp)
	text := fmt.Errorf("%w; what was there is kept as %q", w.changedMeanwhile(s), s.change.Path.Dir.ChildUnchecked(kept).Short())
	if err = cmp.Or(err, kerr); err != nil {
		return fmt.Errorf("%w: %w", text, err)
	}
	return text
}

// cannotRename2 reports whether a file system does not support the flags of renameat2(2).
func cannotRename2(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

func statAt(dir int, name string) (at hostEntry, err error) {
	err = unix.Fstatat(dir, name, &at.st, unix.AT_SYMLINK_NOFOLLOW)
	at.exists = err == nil
	return at, err
}

// isFile reports whether two entries are the same file, by device and inode.
func (p hostEntry) isFile(q hostEntry) bool {
	return p.exists && q.exists && p.st.Dev == q.st.Dev && p.st.Ino == q.st.Ino
}
