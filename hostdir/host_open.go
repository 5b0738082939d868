package hostdir

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A program can add a permission to the mode of a directory that it owns, change the directory's entries, and
// restore the mode. While an apply reads or changes such a directory, it also adds permissions to the mode: the
// directory is then called open. The mode of an open directory also has S_ISUID, which has no effect on
// directories. If this apply is killed, the next apply recognizes the directory by this bit and closes it.

// openMode is added to the mode of a directory to open it.
const openMode = ownerAccess | unix.S_ISUID

// An openedDir is a directory that has openMode: this apply added it, or an earlier apply was killed before it
// restored the mode.
type openedDir struct {
	fd      int    // O_PATH
	mode    uint32 // the mode to restore
	modeSet bool   // the directory has got its mode in the workspace already, besides openMode
}

// closedMode returns the mode of a directory without openMode; mode is its mode on disk. known reports whether the
// directory has the returned mode in the base or the workspace, and this mode denies the owner an access.
func (h *host) closedMode(p *tree.Path, mode uint32) (closed uint32, known bool) {
	for _, st := range h.states {
		n, err := st.Resolve(h.src, p.String())
		if err == nil && n.Mode&ownerAccess != ownerAccess && (mode == n.Mode || mode == n.Mode|openMode) {
			return n.Mode, true
		}
	}
	return mode, false
}

// addOpenMode adds openMode to the mode of the directory with the path p, if its mode in the base or the workspace
// denies its owner an access. It reports whether it changed the mode.
func (h *host) addOpenMode(dir int, p *tree.Path) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || h.openedDirs[st.Ino] != nil {
		return false, err
	}

	wasOpen := st.Mode&openMode == openMode
	if !wasOpen && (os.Geteuid() == 0 || st.Mode&ownerAccess == ownerAccess) || !mayChmod(&st) {
		return false, nil
	}

	mode, known := h.closedMode(p, st.Mode)
	if !known {
		return false, nil // the next access to the directory fails, and reports the error
	}

	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false, err
	}

	h.openedDirs[st.Ino] = &openedDir{fd: fd, mode: mode & 0o7777}
	if wasOpen {
		return false, nil
	}

	return true, unix.Chmod(procPath(fd), mode&0o7777|openMode)
}

// mayChmod reports whether the user may change the mode of a file and restore it.
func mayChmod(st *unix.Stat_t) bool {
	uid := os.Geteuid()
	return uid == 0 || st.Uid == uint32(uid) && (st.Mode&unix.S_ISGID == 0 || inGroup(int(st.Gid)))
}

// withOpenDir calls fn, which uses the directory dir. If the access is denied and openMode can be added, withOpenDir
// adds it and calls fn again.
func (h *host) withOpenDir(dir int, p *tree.Path, fn func() error) error {
	err := fn()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	if opened, oerr := h.addOpenMode(dir, p); oerr != nil || !opened {
		return errors.Join(err, oerr)
	}

	return fn()
}

// restoreModes restores the modes of the directories in h.openedDirs, and closes their descriptors.
func (h *host) restoreModes() (err error) {
	for _, o := range h.openedDirs {
		if !o.modeSet {
			err = errors.Join(err, unix.Chmod(procPath(o.fd), o.mode))
		}

		_ = unix.Close(o.fd)
	}

	clear(h.openedDirs)
	return err
}
