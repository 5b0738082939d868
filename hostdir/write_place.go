package hostdir

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/filetime"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A touchedDir is a directory in which names are made or removed. Its former time is restored,
// unless the workspace has another one. After an apply that was interrupted, that time is not known: the
// directory gets the workspace's time if it has the same names.
type touchedDir struct {
	path        *tree.Path
	time        *unix.Timespec // nil: it is not known
	swept       bool           // the files that an earlier apply left were removed
	interrupted bool           // an earlier apply began to change it
}

func (w *writer) touchedDir(p *tree.Path) *touchedDir {
	d := w.dirs[p.String()]
	if d == nil {
		d = &touchedDir{path: p}
		w.dirs[p.String()] = d
	}
	return d
}

// restoreTimes is called before the times of the workspace are set.
func (w *writer) restoreTimes() {
	for _, t := range w.dirs {
		dir, err := w.host.open(t.path)
		if err != nil || t.time == nil {
			continue
		}

		time := *t.time
		if n := w.completed(t); n != nil {
			time = filetime.Timespec(n.Mtime)
		}
		if at, err := statAt(dir, "."); err != nil || at.st.Mtim != time {
			_ = unix.UtimesNanoAt(dir, ".", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, time}, 0) // it may be another user's
		}
	}
}

// completed returns the workspace's version of a directory that an earlier apply has changed, or began to
// change, if the two have the same names now. Else it is nil.
func (w *writer) completed(t *touchedDir) *tree.Inode {
	if !t.interrupted && !w.o.Undo {
		return nil
	}
	n, err := w.o.Now.Resolve(w.o.Source, t.path.String())
	if err != nil || !n.IsDir() {
		return nil
	}

	entries, err := w.host.list(t.path)
	if err != nil {
		return nil
	}

	var here, there []string
	for _, e := range entries {
		here = append(here, e.Name())
	}

	err = n.Dir.List(w.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		there = append(there, e.Name)
		return true
	})
	slices.Sort(here)
	slices.Sort(there)
	if err != nil || !slices.Equal(here, there) {
		return nil
	}

	return n
}

// put gives a staged file its name. It removes the file that had the name when the step was
// planned. Another file, such as one that an editor has just saved, stays.
func (w *writer) put(dir int, s *step) error {
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
		err = nil // a program has created a file in it
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
	if err == nil { // another program replaced the name again: the newest file gets it
		err = unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_EXCHANGE)
	}

	kept := s.temp
	s.temp = "" // another program's file has that name, and must not be removed
	return w.keptError(dir, kept, s, err)
}

// exchange exchanges a staged file with the file that has its name. The temporary name identifies both, for
// sweep.
func (w *writer) exchange(dir int, s *step) (ours hostEntry, err error) {
	if ours, err = statAt(dir, s.temp); err != nil {
		return ours, err
	}

	key := ours.key()
	if s.how == moveName {
		key = "" // the file has no other name, so it must never be swept
	}

	temp := w.replacedName(key, w.host.seenKey(s.seen))
	if err := unix.Renameat(dir, s.temp, dir, temp); err != nil {
		return ours, err
	}

	s.temp = temp
	if p := s.change.Path.String(); w.host.alias[p] != "" {
		w.host.alias[p] = temp
	}

	return ours, unix.Renameat2(dir, temp, dir, s.change.Path.Name, unix.RENAME_EXCHANGE)
}

// putOver is put for a file system that cannot exchange names.
func (w *writer) putOver(dir int, s *step) error {
	if s.seen.isDir() != s.change.After.IsDir() {
		if err := unlink(dir, s.change.Path.Name, s.seen); err != nil {
			return err
		}
	}

	if err := unix.Renameat(dir, s.temp, dir, s.change.Path.Name); err != nil {
		return err
	}

	// A rename onto another name of the same file does nothing.
	return errs.Except(unix.Unlinkat(dir, s.temp, 0), unix.ENOENT)
}

// unlink removes a file, or an empty directory.
func unlink(dir int, name string, what hostEntry) error {
	if what.isDir() {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

// removeSeen removes the file that a step has seen. Another file that has its name now stays.
func (w *writer) removeSeen(dir int, s *step) error {
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

// moveOut gives a file that is to be removed a temporary name.
func (w *writer) moveOut(dir int, s *step) (temp string, err error) {
	temp = w.replacedName("", w.host.seenKey(s.seen))
	return temp, unix.Renameat2(dir, s.change.Path.Name, dir, temp, unix.RENAME_NOREPLACE)
}

// keptError returns the error for a file of another program that could not get its name back.
func (w *writer) keptError(dir int, temp string, s *step, err error) error {
	kept, kerr := setAside(dir, temp)
	text := fmt.Errorf("%w; what was there is kept as %q", w.changedMeanwhile(s), s.change.Path.Dir.Entry(kept).Short())
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

// isSeen reports whether a file that was renamed, which changes its ctime, is the one that a step was
// planned for.
func (w *writer) isSeen(s *step, out hostEntry) bool {
	out.st.Ctim = s.seen.st.Ctim
	return !w.differs(s, out)
}

func (w *writer) changedMeanwhile(s *step) error {
	return fmt.Errorf("%q changed in %s meanwhile", s.change.Path.Short(), w.res.Dir)
}

// mayTouch fails if the system would refuse to replace, change or remove the file at a path.
func (w *writer) mayTouch(s *step) error {
	if !s.seen.exists {
		return nil
	}
	p := s.change.Path
	dir, err := w.host.dirOf(p)
	if err != nil {
		return err
	}

	var x, above unix.Statx_t
	if err := unix.Statx(dir, nameOf(p), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x); err != nil {
		return fmt.Errorf("looking at %q: %w", p.Short(), err)
	}
	if err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &above); err != nil {
		return fmt.Errorf("looking at what has %q: %w", p.Short(), err)
	}

	const fixed = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	if x.Attributes&fixed != 0 || s.action != attributes && above.Attributes&fixed != 0 {
		return fmt.Errorf("%q cannot be changed: lsattr shows why, and chattr -ia ends it: %w", p.Short(), unix.EPERM)
	}

	uid := uint32(os.Geteuid())
	again := s.change.Before != nil && s.change.After != nil && s.change.Before.Ino == s.change.After.Ino // see keepOwner
	if !again && above.Mode&unix.S_ISVTX != 0 && uid != 0 && uid != x.Uid && uid != above.Uid {
		return fmt.Errorf("%q is another user's, in a directory where only he may remove it: %w", p.Short(), unix.EPERM)
	}

	return nil
}
