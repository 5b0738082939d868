package hostdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A placer renames staged files to their final names, removes files, and sets attributes. Before it renames or removes,
// it checks that the file at the path is still the file for which the step was planned.
type placer struct {
	host    *host
	res     *ApplyResult
	touched map[uint64]bool // inodes of which this apply made or removed a name; the value is true if it also changed the bytes
}

// touch records that this apply makes or removes a name of an inode.
func (w *placer) touch(ino uint64) {
	if _, ok := w.touched[ino]; !ok {
		w.touched[ino] = false
	}
}

// checkUnchanged fails if the entry at a path changed since the step was planned, unless this apply made the change
// through another name of the file.
func (w *placer) checkUnchanged(s *step) error {
	if s.original.parentErr != nil {
		return nil // the directory above did not exist, so this apply makes it
	}
	present, err := w.host.entryAt(s.change.Path)
	if err != nil {
		return err
	}
	if w.differs(s, present) {
		return w.changedError(s)
	}

	return nil
}

// differs reports whether a file changed since the step was planned, except by this apply through another name.
func (w *placer) differs(s *step, present hostEntry) bool {
	if present.isDir() {
		present.st.Mode, _ = w.host.closedMode(s.change.Path, present.st.Mode)
	}
	if w.wasCopiedUp(s) {
		present.st.Dev, present.st.Ino = s.original.st.Dev, s.original.st.Ino
	}

	switch written, touched := w.touched[present.st.Ino]; {
	case written:
		return !present.isSameFile(s.original)
	case touched:
		present.st.Ctim = s.original.st.Ctim
	}

	return s.original.differsFrom(present)
}

// wasCopiedUp reports whether this apply made overlayfs copy the file of a step to its upper layer, through this
// name or another. A lower-layer file with several names gets a new inode by the copy.
func (w *placer) wasCopiedUp(s *step) bool {
	_, touched := w.touched[s.original.st.Ino]
	return touched && w.host.onOverlay && s.original.exists && !s.original.isDir() && s.original.st.Nlink > 1
}

// checkAndTouch calls checkUnchanged, and then touch for the existing file at the path of a step.
func (w *placer) checkAndTouch(s *step) error {
	err := w.checkUnchanged(s)
	if s.original.exists {
		w.touch(s.original.st.Ino)
	}
	return err
}

// isCopiedApart reports whether a hard link of a file has become the name of a file of its own. This happens on
// overlayfs: if the file changes through one of several names, and is in a lower layer, overlayfs copies it for
// this name only.
func (w *placer) isCopiedApart(s *step, f *hostFile) bool {
	if f.path == nil || s.placement == overwrite || !w.wasCopiedUp(s) {
		return false
	}
	here, err := w.host.entryAt(s.change.Path)
	there, terr := w.host.entryAt(f.path)
	return err == nil && terr == nil && !here.isSameFile(there)
}

// isOriginal reports whether a renamed file is the file for which a step was planned. The ctime is not
// compared, because the rename has changed it.
func (w *placer) isOriginal(s *step, renamed hostEntry) bool {
	renamed.st.Ctim = s.original.st.Ctim
	return !w.differs(s, renamed)
}

// changedError returns the error for a file that changed after its step was planned.
func (w *placer) changedError(s *step) error {
	return fmt.Errorf("%q changed in %s meanwhile", s.change.Path.Short(), w.res.Dir)
}

// checkReplaceable fails if the system would refuse to replace, change or remove the file at a path.
func (w *placer) checkReplaceable(s *step) error {
	if !s.original.exists {
		return nil
	}
	p := s.change.Path
	dir, err := w.host.parentFD(p)
	if err != nil {
		return err
	}

	var x, parent unix.Statx_t
	if err := unix.Statx(dir, nameOf(p), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x); err != nil {
		return fmt.Errorf("looking at %q: %w", p.Short(), err)
	}
	if err := unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &parent); err != nil {
		return fmt.Errorf("looking at what has %q: %w", p.Short(), err)
	}

	const fixed = unix.STATX_ATTR_IMMUTABLE | unix.STATX_ATTR_APPEND
	if x.Attributes&fixed != 0 || s.action != changeAttributes && parent.Attributes&fixed != 0 {
		return fmt.Errorf("%q cannot be changed: lsattr shows why, and chattr -ia ends it: %w", p.Short(), unix.EPERM)
	}

	uid := uint32(os.Geteuid())
	// A step that keeps the file only changes its attributes or overwrites it, and needs no right to remove it.
	keepsFile := s.change.Before != nil && s.change.After != nil && s.change.Before.Ino == s.change.After.Ino
	if !keepsFile && parent.Mode&unix.S_ISVTX != 0 && uid != 0 && uid != x.Uid && uid != parent.Uid {
		return fmt.Errorf("%q is another user's, in a directory where only he may remove it: %w", p.Short(), unix.EPERM)
	}

	return nil
}
