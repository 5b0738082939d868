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

// lock lets one apply of this user at a time change the directory, until release. A dry run takes
// a shared lock. Without a lock a change by another apply is noticed when a path gets its name.
func (a *applying) lock() (err error) {
	how := unix.LOCK_EX
	if a.o.DryRun {
		how = unix.LOCK_SH
	}
	a.locked, err = lockDir(a.ctx, a.host.root, how, a.o.Waiting)
	return err
}

// dirTime is the time of a directory before names were made and removed in it. It is restored,
// unless the workspace has another one. After an apply that was interrupted, nobody knows it: the
// directory gets the workspace's time if it has the same names.
type dirTime struct {
	path *tree.Path
	time unix.Timespec
}

// restoreTimes is called before the times of the workspace are set.
func (a *applying) restoreTimes() {
	for _, t := range a.times {
		dir, err := a.host.open(t.path)
		if err != nil {
			continue
		}
		if n := a.completed(t.path); n != nil {
			t.time = filetime.Timespec(n.Mtime)
		}
		if at, err := statAt(dir, "."); err != nil || at.st.Mtim != t.time {
			_ = unix.UtimesNanoAt(dir, ".", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, t.time}, 0) // it may be another user's
		}
	}
}

// completed returns the workspace's version of a directory that an earlier apply began to change, if
// the two have the same names now. Else it is nil.
func (a *applying) completed(p *tree.Path) *tree.Inode {
	if !a.interrupted[p.String()] {
		return nil
	}
	n, err := a.o.Now.Resolve(a.o.Source, p.String())
	if err != nil || !n.IsDir() {
		return nil
	}
	dir, err := a.host.open(p)
	if err != nil {
		return nil
	}
	f, err := openIn(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	defer f.Close()
	here, err := f.Readdirnames(-1)
	if err != nil {
		return nil
	}

	slices.Sort(here)
	var there []string
	err = n.Dir.List(a.o.Source, 0, func(e tree.Dirent, _ uint64) bool {
		there = append(there, e.Name)
		return true
	})
	slices.Sort(there)
	if err != nil || !slices.Equal(here, there) {
		return nil
	}
	return n
}

// put gives what is staged its name. It removes the file that had the name when the step was
// planned. Another file, such as one that an editor has just saved, stays.
func (a *applying) put(dir int, s *applyStep) error {
	name := s.change.Path.Name
	if !s.seen.exists {
		err := unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_NOREPLACE)
		if errors.Is(err, unix.EEXIST) {
			return a.changedMeanwhile(s)
		}
		if cannotRename2(err) {
			return unix.Renameat(dir, s.temp, dir, name)
		}
		return err
	}
	ours, err := a.exchange(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return a.changedMeanwhile(s)
	case cannotRename2(err):
		return a.putOver(dir, s)
	case err != nil:
		return err
	}
	out, err := statAt(dir, s.temp)
	if err == nil && a.isSeen(s, out) {
		if err = unlink(dir, s.temp, out); !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
		err = nil // a file was created in it meanwhile
	}
	if err == nil {
		err = unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_EXCHANGE)
	}
	if err == nil {
		out, err = statAt(dir, s.temp)
	}
	if err == nil && out.key() == ours.key() {
		return a.changedMeanwhile(s)
	}
	if err == nil { // another program replaced the name again: the newest file gets it
		err = unix.Renameat2(dir, s.temp, dir, name, unix.RENAME_EXCHANGE)
	}
	kept := s.temp
	s.temp = "" // another program's file has that name, and must not be removed
	return a.keptError(dir, kept, s, err)
}

// exchange exchanges what is staged with what has its name. The temporary name identifies both, for
// sweep.
func (a *applying) exchange(dir int, s *applyStep) (ours place, err error) {
	if ours, err = statAt(dir, s.temp); err != nil {
		return ours, err
	}
	temp := a.replacedName(ours.key(), a.host.seenKey(s.seen))
	if err := unix.Renameat(dir, s.temp, dir, temp); err != nil {
		return ours, err
	}
	s.temp = temp
	if p := s.change.Path.String(); a.host.alias[p] != "" {
		a.host.alias[p] = temp
	}
	return ours, unix.Renameat2(dir, temp, dir, s.change.Path.Name, unix.RENAME_EXCHANGE)
}

// putOver is put where a file system cannot exchange names.
func (a *applying) putOver(dir int, s *applyStep) error {
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
func unlink(dir int, name string, what place) error {
	if what.isDir() {
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	return unix.Unlinkat(dir, name, 0)
}

// removeSeen removes a file. If another file has its name by now, that stays.
func (a *applying) removeSeen(dir int, s *applyStep) error {
	name := s.change.Path.Name
	temp, err := a.moveOut(dir, s)
	switch {
	case errors.Is(err, unix.ENOENT):
		return a.changedMeanwhile(s)
	case cannotRename2(err):
		return unix.Unlinkat(dir, name, 0)
	case err != nil:
		return err
	}
	out, err := statAt(dir, temp)
	if err == nil && a.isSeen(s, out) {
		return unix.Unlinkat(dir, temp, 0)
	}
	if err == nil {
		err = unix.Renameat2(dir, temp, dir, name, unix.RENAME_NOREPLACE)
	}
	if err == nil {
		return a.changedMeanwhile(s)
	}
	return a.keptError(dir, temp, s, err)
}

// moveOut gives a file that is to be removed a temporary name.
func (a *applying) moveOut(dir int, s *applyStep) (temp string, err error) {
	temp = a.replacedName("", a.host.seenKey(s.seen))
	return temp, unix.Renameat2(dir, s.change.Path.Name, dir, temp, unix.RENAME_NOREPLACE)
}

// keptError returns the error for a file of another program that could not get its name back.
func (a *applying) keptError(dir int, temp string, s *applyStep, err error) error {
	kept, kerr := setAside(dir, temp)
	text := fmt.Errorf("%w; what was there is kept as %q", a.changedMeanwhile(s), s.change.Path.Dir.Entry(kept).Short())
	if err = cmp.Or(err, kerr); err != nil {
		return fmt.Errorf("%w: %w", text, err)
	}
	return text
}

// cannotRename2 reports whether a file system does not support the flags of renameat2(2).
func cannotRename2(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

func statAt(dir int, name string) (at place, err error) {
	err = unix.Fstatat(dir, name, &at.st, unix.AT_SYMLINK_NOFOLLOW)
	at.exists = err == nil
	return at, err
}

// isFile reports whether two places have the same file.
func (p place) isFile(q place) bool {
	return p.exists && q.exists && p.st.Dev == q.st.Dev && p.st.Ino == q.st.Ino
}

// isSeen reports whether a file that was renamed, which changes its ctime, is the one that a step was
// planned for.
func (a *applying) isSeen(s *applyStep, out place) bool {
	out.st.Ctim = s.seen.st.Ctim
	return !a.differs(s, out)
}

func (a *applying) changedMeanwhile(s *applyStep) error {
	return fmt.Errorf("%q changed in %s meanwhile", s.change.Path.Short(), a.res.Dir)
}

// mayTouch fails if the system would refuse to replace, change or remove what is at a path.
func (a *applying) mayTouch(s *applyStep) error {
	if !s.seen.exists {
		return nil
	}
	p := s.change.Path
	dir, err := a.host.dirOf(p)
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
	if x.Attributes&fixed != 0 || !s.attrsOnly && above.Attributes&fixed != 0 {
		return fmt.Errorf("%q cannot be changed: lsattr shows why, and chattr -ia ends it: %w", p.Short(), unix.EPERM)
	}
	uid := uint32(os.Geteuid())
	again := s.change.Before != nil && s.change.After != nil && s.change.Before.Ino == s.change.After.Ino // see keepOwner
	if !again && above.Mode&unix.S_ISVTX != 0 && uid != 0 && uid != x.Uid && uid != above.Uid {
		return fmt.Errorf("%q is another user's, in a directory where only he may remove it: %w", p.Short(), unix.EPERM)
	}
	return nil
}
