package gitbridge

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A program can give itself the right to change a directory that it owns, change what is in it,
// and take the right away again. An apply does the same: such a directory is opened while
// names in it change. A symbolic link in the top directory notes the mode that it had, for the next apply
// if this one is killed.

// mayEnter is in the mode of a directory in which its owner may change names.
const mayEnter = 0o300

// An openedDir is a directory that is open for a while.
type openedDir struct {
	fd   int // of a path alone
	mode uint32
	note string // the name of the link, "" if there is none
	set  bool   // it has got the mode that the workspace has
}

// openUp opens a directory that has the path p: one that this apply makes, or that the
// program found closed. What was closed later stays so.
func (a *applying) openUp(dir int, p *tree.Path, made bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil || st.Mode&mayEnter == mayEnter || os.Geteuid() == 0 ||
		st.Uid != uint32(os.Geteuid()) || a.opened[st.Ino] != nil {
		return err
	}
	if !made {
		was, err := a.o.Base.Resolve(a.o.Source, p.String())
		if err != nil || was.Mode != st.Mode {
			return nil // the next error tells
		}
	}
	fd, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	o := &openedDir{fd: fd, mode: st.Mode & 0o7777, note: fmt.Sprintf("%s%x", a.host.notes(), st.Ino)}
	a.opened[st.Ino] = o
	note := func() bool {
		return unix.Symlinkat(fmt.Sprintf("%o %s", o.mode, p.String()), a.host.root, o.note) == nil
	}
	noted := p != nil && note()
	err = unix.Chmod(procPath(fd), o.mode|unfinished)
	if p == nil {
		noted = note()
	}
	if !noted { // the top directory takes none: a kill leaves this one open
		o.note = ""
	}
	return err
}

// openMade opens a directory that is made, if what is in it gets its names later.
func (a *applying) openMade(s *applyStep) error {
	dir, err := a.host.walk(s.change.Path)
	if err == nil {
		err = a.openUp(dir, s.change.Path, true)
		_ = unix.Close(dir) // of a path alone
	}
	return err
}

// closeUp gives the directories their modes.
func (a *applying) closeUp() (err error) {
	var top unix.Stat_t
	if len(a.opened) == 0 {
		return nil
	}
	if err := unix.Fstat(a.host.root, &top); err != nil {
		return err
	}
	for ino, o := range a.opened {
		if ino == top.Ino {
			defer func() { err = firstOf(err, a.closeDir(o)) }() // it has the notes
		} else {
			err = firstOf(err, a.closeDir(o))
		}
	}
	clear(a.opened)
	_ = unix.UtimesNanoAt(a.host.root, ".", []unix.Timespec{{Nsec: unix.UTIME_OMIT}, top.Mtim}, 0) // it may be another user's
	return err
}

func (a *applying) closeDir(o *openedDir) (err error) {
	if !o.set {
		err = unix.Chmod(procPath(o.fd), o.mode)
	}
	if o.note != "" {
		err = firstOf(err, unix.Unlinkat(a.host.root, o.note, 0))
	}
	_ = unix.Close(o.fd)
	return err
}

func firstOf(err, next error) error {
	if err != nil {
		return err
	}
	return next
}

// isOpened returns the mode of a directory without what this apply added to it.
func (a *applying) isOpened(at place) uint32 {
	if o := a.opened[at.st.Ino]; o != nil && at.isDir() && at.st.Mode&0o7777 == o.mode|unfinished {
		return at.st.Mode&unix.S_IFMT | o.mode
	}
	return at.st.Mode
}

func (h *host) notes() string { return strings.Replace(h.temps, "apply", "mode", 1) }

// closeLeft closes what a killed apply left open.
func (a *applying) closeLeft() error {
	fd, err := unix.Openat(a.host.root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return reason(err)
	}
	for _, name := range names {
		if !strings.HasPrefix(name, a.host.notes()) {
			continue
		}
		text, err := a.host.readlink((*tree.Path)(nil).Entry(name))
		if err != nil {
			return err
		}
		octal, at, _ := strings.Cut(text, " ")
		mode, err := strconv.ParseUint(octal, 8, 12)
		var p *tree.Path
		if err == nil && at != "" {
			p, err = tree.ParsePath(at)
		}
		if err != nil {
			continue // it is another program's
		}
		var st unix.Stat_t
		dir, err := a.host.walk(p)
		if err == nil && unix.Fstat(dir, &st) == nil && st.Mode&0o7777 == uint32(mode)|unfinished && strings.HasSuffix(name, fmt.Sprintf("-%x", st.Ino)) {
			err = unix.Chmod(procPath(dir), uint32(mode))
		}
		if err == nil {
			_ = unix.Close(dir)
		}
		if err := unix.Unlinkat(a.host.root, name, 0); err != nil {
			return err
		}
	}
	return nil
}
