package hostdir

import (
	"cmp"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// placeStaged renames a staged file to its final name, and removes the file that had the name when the step was
// planned. If another file has the name, such as one that an editor has just saved, this file is kept.
func (w *placer) placeStaged(dir int, s *step) error {
	name := s.change.Path.Name

	if !s.original.exists {
		err := unix.Renameat2(dir, s.tempName, dir, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			return w.changedError(s)
		}
		if lacksRenameFlags(err) {
			return unix.Renameat(dir, s.tempName, dir, name)
		}

		return err
	}

	stagedEntry, err := w.exchange(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return w.changedError(s)
	case lacksRenameFlags(err):
		return w.placeWithoutExchange(dir, s)
	case err != nil:
		return err
	}

	replaced, err := statAt(dir, s.tempName)
	if err == nil && w.isOriginal(s, replaced) {
		if err = unlink(dir, s.tempName, replaced); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		err = nil // the directory must be kept, because another program has created a file in it
	}

	if err == nil {
		err = unix.Renameat2(dir, s.tempName, dir, name, unix.RENAME_EXCHANGE)
	}
	if err == nil {
		replaced, err = statAt(dir, s.tempName)
	}
	if err == nil && replaced.key() == stagedEntry.key() {
		return w.changedError(s)
	}
	// Another program has replaced the file at the name after the first exchange. Its file is the newest, so it
	// gets the name back.
	if err == nil {
		err = unix.Renameat2(dir, s.tempName, dir, name, unix.RENAME_EXCHANGE)
	}

	kept := s.tempName
	s.tempName = "" // the temporary name now belongs to another program's file, which must not be removed
	return w.keepForeignFile(dir, kept, s, err)
}

// exchange exchanges a staged file with the file that has its final name. The temporary name contains the keys of
// the two files, for sweepFile.
func (w *placer) exchange(dir int, s *step) (stagedEntry hostEntry, err error) {
	if stagedEntry, err = statAt(dir, s.tempName); err != nil {
		return stagedEntry, err
	}

	key := stagedEntry.key()
	if s.placement == moveName {
		key = "" // the file has no other name, so sweepFile must never remove it
	}

	temp := w.host.replacedName(key, w.host.originalKey(s.original))
	if err := unix.Renameat(dir, s.tempName, dir, temp); err != nil {
		return stagedEntry, err
	}

	s.tempName = temp
	if p := s.change.Path.String(); w.host.tempNames[p] != "" {
		w.host.tempNames[p] = temp
	}

	return stagedEntry, unix.Renameat2(dir, temp, dir, s.change.Path.Name, unix.RENAME_EXCHANGE)
}

// placeWithoutExchange is placeStaged for a file system that cannot exchange names.
func (w *placer) placeWithoutExchange(dir int, s *step) error {
	if s.original.isDir() != s.change.After.IsDir() {
		if err := unlink(dir, s.change.Path.Name, s.original); err != nil {
			return err
		}
	}

	if err := unix.Renameat(dir, s.tempName, dir, s.change.Path.Name); err != nil {
		return err
	}

	// If both names belonged to the same file, the rename has done nothing, and the temporary name must be
	// removed.
	return errs.Ignore(unix.Unlinkat(dir, s.tempName, 0), unix.ENOENT)
}

// unlink removes a file, or an empty directory.
func unlink(dir int, name string, entry hostEntry) error {
	if entry.isDir() {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

// removeOriginal removes the file for which a step was planned. If another file has the name now, this file is kept.
func (w *placer) removeOriginal(dir int, s *step) error {
	name := s.change.Path.Name
	temp, err := w.moveToTemp(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return w.changedError(s)
	case lacksRenameFlags(err):
		return unix.Unlinkat(dir, name, 0)
	case err != nil:
		return err
	}

	removed, err := statAt(dir, temp)
	if err == nil && w.isOriginal(s, removed) {
		return unix.Unlinkat(dir, temp, 0)
	}
	if err == nil {
		err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return w.changedError(s)
	}

	return w.keepForeignFile(dir, temp, s, err)
}

// moveToTemp renames a file that is to be removed to a temporary name.
func (w *placer) moveToTemp(dir int, s *step) (temp string, err error) {
	temp = w.host.replacedName("", w.host.originalKey(s.original))
	return temp, unix.Renameat2(dir, s.change.Path.Name, dir, temp, unix.RENAME_NOREPLACE)
}

// keepForeignFile gives another program's file, which could not be renamed back to its name, a name that no
// apply removes. It returns an error with this name.
func (w *placer) keepForeignFile(dir int, temp string, s *step, err error) error {
	kept, kerr := setAside(dir, temp)
	text := fmt.Errorf("%w; what was there is kept as %q", w.changedError(s), s.change.Path.Dir.ChildUnchecked(kept).Short())
	if err = cmp.Or(err, kerr); err != nil {
		return fmt.Errorf("%w: %w", text, err)
	}
	return text
}

// lacksRenameFlags reports whether renameat2(2) failed because the file system does not support its flags.
func lacksRenameFlags(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// statAt returns the entry with a name in a directory. An absent entry is an error.
func statAt(dir int, name string) (entry hostEntry, err error) {
	err = unix.Fstatat(dir, name, &entry.st, unix.AT_SYMLINK_NOFOLLOW)
	entry.exists = err == nil
	return entry, err
}

// isSameFile reports whether two entries are the same file, by device and inode.
func (p hostEntry) isSameFile(q hostEntry) bool {
	return p.exists && q.exists && p.st.Dev == q.st.Dev && p.st.Ino == q.st.Ino
}
