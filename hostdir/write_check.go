package hostdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A placer gives staged files their names, and removes files. It first checks that the file at a path is the file that
// the step of the path has seen.
type placer struct {
	host    *host
	dir     string          // Applied.Dir, for errors
	touched map[uint64]bool // inodes of which this apply made or removed a name; true if it changed the bytes, too
}

// touch records that this apply makes or removes a name of an inode.
func (w *placer) touch(ino uint64) {
	if _, ok := w.touched[ino]; !ok {
		w.touched[ino] = false
	}
}

// check fails if the entry at a path changed since it was planned. This apply may have made or
// removed another name of its file.
func (w *placer) check(s *step) error {
	if s.seen.unreachable != nil {
		return nil // this apply makes the directory above it
	}
	now, err := w.host.look(s.change.Path)
	if err != nil {
		return err
	}
	if w.differs(s, now) {
		return w.changedMeanwhile(s)
	}

	return nil
}

// differs reports whether a file changed since it was planned, except by this apply through another name.
func (w *placer) differs(s *step, now hostEntry) bool {
	if now.isDir() {
		now.st.Mode, _ = w.host.closedMode(s.change.Path, now.st.Mode)
	}
	if w.copiedUp(s) {
		now.st.Dev, now.st.Ino = s.seen.st.Dev, s.seen.st.Ino
	}

	switch written, touched := w.touched[now.st.Ino]; {
	case written:
		return !now.isFile(s.seen)
	case touched:
		now.st.Ctim = s.seen.st.Ctim
	}

	return s.seen.changed(now)
}

// copiedUp reports whether this apply has moved the file of a step to the upper layer of overlayfs, by
// another or by this name. Then a file of the lower layer with several names gets another inode.
func (w *placer) copiedUp(s *step) bool {
	_, touched := w.touched[s.seen.st.Ino]
	return touched && w.host.overlay && s.seen.exists && !s.seen.isDir() && s.seen.st.Nlink > 1
}

// checkAndTouch calls check, and then touch for the existing file at the path of a step.
func (w *placer) checkAndTouch(s *step) error {
	err := w.check(s)
	if s.seen.exists {
		w.touch(s.seen.st.Ino)
	}
	return err
}

// isCopiedApart reports whether a name of a file is a name of another file now: overlayfs copies each name of
// a file of its lower layer to a file of its own, when the first of them changes.
func (w *placer) isCopiedApart(s *step, f *hostFile) bool {
	if f.at == nil || s.how == overwrite || !w.copiedUp(s) {
		return false
	}
	here, err := w.host.look(s.change.Path)
	there, terr := w.host.look(f.at)
	return err == nil && terr == nil && !here.isFile(there)
}

// isSeen reports whether a file that was renamed, which changes its ctime, is the one that a step was
// planned for.
func (w *placer) isSeen(s *step, out hostEntry) bool {
	out.st.Ctim = s.seen.st.Ctim
	return !w.differs(s, out)
}

func (w *placer) changedMeanwhile(s *step) error {
	return fmt.Errorf("%q changed in %s meanwhile", s.change.Path.Short(), w.dir)
}

// mayTouch fails if the system would refuse to replace, change or remove the file at a path.
func (w *placer) mayTouch(s *step) error {
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
