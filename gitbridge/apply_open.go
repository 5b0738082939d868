package gitbridge

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A program can give itself the right to change a directory that it owns, change what is in it,
// and take the right away again. An apply does the same: such a directory is open while names
// in it are looked at and change. Its mode then has a bit that means nothing for a directory, by
// which the next apply finds and closes it if this one is killed.

// openMode is in the mode of a directory that is open for a while.
const openMode = unfinished | unix.S_ISUID

// An openedDir is a directory that is open for a while.
type openedDir struct {
	fd   int // of a path alone
	mode uint32
	set  bool // it has got the mode that the workspace has
}

// closedMode returns the mode of a directory without what an apply adds to open it. known
// reports that the base or the workspace has the directory closed, with that mode.
func (a *applying) closedMode(p *tree.Path, mode uint32) (closed uint32, known bool) {
	for _, st := range []*tree.State{a.o.Base, a.o.Now} {
		n, err := st.Resolve(a.o.Source, p.String())
		if err == nil && n.Mode&unfinished != unfinished && (mode == n.Mode || mode == n.Mode|openMode) {
			return n.Mode, true
		}
	}
	return mode, false
}

// openUp opens a directory that has the path p, if the program found or left it closed. What was
// closed later stays so. It reports whether it changed the mode.
func (a *applying) openUp(dir int, p *tree.Path) (bool, error) {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || a.opened[st.Ino] != nil {
		return false, err
	}
	left := st.Mode&openMode == openMode
	if !left && (os.Geteuid() == 0 || st.Mode&unfinished == unfinished) || !mayChmod(&st) {
		return false, nil
	}
	mode, known := a.closedMode(p, st.Mode)
	if !known {
		return false, nil // the next error tells
	}
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	a.opened[st.Ino] = &openedDir{fd: fd, mode: mode & 0o7777}
	if left {
		return false, nil
	}
	return true, unix.Chmod(procPath(fd), mode&0o7777|openMode)
}

// mayChmod reports whether the user may change the mode of a file and give it back.
func mayChmod(st *unix.Stat_t) bool {
	uid := os.Geteuid()
	return uid == 0 || st.Uid == uint32(uid) && (st.Mode&unix.S_ISGID == 0 || inGroup(int(st.Gid)))
}

// opening does something in a directory, which is opened if that is needed.
func (h *host) opening(dir int, p *tree.Path, do func() error) error {
	err := do()
	if !errors.Is(err, unix.EACCES) {
		return err
	}
	if is, oerr := h.openUp(dir, p); oerr != nil || !is {
		return errors.Join(err, oerr)
	}
	return do()
}

// openDir opens the directory of a step, if it is closed, or notes that it is open.
func (a *applying) openDir(s *applyStep) error {
	dir, err := a.host.walk(s.change.Path)
	if err == nil {
		_, err = a.openUp(dir, s.change.Path)
		_ = unix.Close(dir) // of a path alone
	}
	return err
}

// closeUp gives the directories their modes.
func (a *applying) closeUp() (err error) {
	for _, o := range a.opened {
		if !o.set {
			if cerr := unix.Chmod(procPath(o.fd), o.mode); err == nil {
				err = cerr
			}
		}
		_ = unix.Close(o.fd)
	}
	clear(a.opened)
	return err
}
