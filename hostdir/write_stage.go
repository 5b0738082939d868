package hostdir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// ownerAccess are permissions that are added to the mode of a directory until its entries are complete.
const ownerAccess = 0o700

// stageStep prepares a step, unless it is prepared already.
func (w *writer) stageStep(s *step) error {
	if s.action == keep || s.state != planned {
		return nil
	}
	err := w.prepareStep(s)
	if err == nil {
		w.advance(s, staged)
	}

	return err
}

// prepareStep checks whether a step is allowed, and creates its file or directory under a temporary name.
func (w *writer) prepareStep(s *step) error {
	c := s.change
	if err := w.placer.checkReplaceable(s); err != nil {
		return err
	}
	if s.action == changeAttributes {
		return w.placer.checkAttrsChangeable(s)
	}

	if s.original.isDir() && s.action != makeDir {
		if err := w.dirs.sweepDir(c.Path); err != nil {
			return err
		}
	}
	switch s.action {
	case remove:
		return w.checkParentWritable(c.Path)
	case moveDir:
		return w.stageMoveDir(s)
	}

	switch {
	case s.action == makeDir && w.isUnread(c):
		return fmt.Errorf("%q is another user's directory, which apply cannot move: move it yourself, and apply again: %w", c.Path.Short(), unix.EPERM)
	case s.action == makeDir:
		return w.stageDir(s, c.After.Mode&0o777|ownerAccess)
	case w.host.isOnlyOverwritable(s):
		s.markOverwrite()
		s.file.firstStep = s
		w.staged = append(w.staged, s)
		return nil
	}

	dir, name, err := w.addStaged(s)
	if err == nil {
		err = w.createFile(dir, name, s)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
	}

	return nil
}

// isUnread reports whether a new directory is another user's directory that was moved in the workspace, and whose
// entries could not be read. Then the entries exist only in the directory of the host. A copy without contents
// has no change time, so the workspace has the modification time instead.
func (w *writer) isUnread(c tree.Change) bool {
	if c.Before != nil || !isForeign(c.After) {
		return false
	}
	if w.o.Undo && c.After.Ctime == c.After.Mtime {
		return true
	}
	was, err := w.o.Base.Get(w.o.Source, c.After.Ino)
	return err == nil && was.IsDir() && was.Btime == c.After.Btime && was.Ctime == was.Mtime
}

// addStaged returns the directory and the name under which a path is written first. The name is the path's
// own if the directory is new itself. Otherwise it is a temporary name, and the step is added to w.staged.
func (w *writer) addStaged(s *step) (dir int, name string, err error) {
	p := s.change.Path
	if w.host.isNew(p.Dir) {
		dir, err = w.host.parentFD(p)
		return dir, p.Name, err
	}

	if dir, err = w.dirs.enterDir(p.Dir); err != nil {
		return dir, "", err
	}

	s.tempName = w.host.tempName()
	w.staged = append(w.staged, s)

	return dir, s.tempName, nil
}

// unstage reverses addStaged.
func (w *writer) unstage(s *step) {
	s.tempName = ""
	w.staged = slices.DeleteFunc(w.staged, func(x *step) bool { return x == s })
}

// entryOf returns the directory of a step's path, and the present name of the file in this directory.
func (h *host) entryOf(s *step) (dir int, name string, err error) {
	dir, err = h.parentFD(s.change.Path)
	return dir, cmp.Or(s.tempName, nameOf(s.change.Path)), err
}

// stageDir creates the directory of a step under a temporary name.
func (w *writer) stageDir(s *step, mode uint32) error {
	dir, name, err := w.addStaged(s)
	if err == nil {
		err = unix.Mkdirat(dir, name, mode)
	}
	if at, lerr := statAt(dir, name); err == nil && lerr == nil && at.st.Mode&ownerAccess != ownerAccess {
		err = chmodIn(dir, name, mode) // a default ACL of the parent has removed some of the permissions
	}
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", s.change.Path.Short(), err)
	}
	if s.tempName != "" {
		w.host.tempNames[s.change.Path.String()] = s.tempName
	}

	return nil
}

// checkParentWritable fails if the names in the directory above a path cannot be changed.
func (w *writer) checkParentWritable(p *tree.Path) error {
	dir, err := w.dirs.enterDir(p.Dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err == nil {
		err = unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return withManualHint(fmt.Errorf("removing %q: %w", p.Short(), err))
	}

	return nil
}

// withManualHint adds a hint to an error: the user can make the change that the system refuses.
func withManualHint(err error) error {
	return errs.Fail(errs.ScriptKind(err), "%w", err).WithHint("do it yourself, or leave it out by %s, and apply again", ignoreName)
}

// removeBelow removes a file, or a directory with its contents.
func removeBelow(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}

	root, err := os.OpenRoot(procPath(dir))
	if err != nil {
		return err
	}

	return errors.Join(root.RemoveAll(name), root.Close())
}

// createFile creates the file of a step under the name tmp, with its content and attributes.
func (w *writer) createFile(dir int, tmp string, s *step) error {
	c := s.change
	n := c.After
	f := s.file
	if f.path != nil {
		if f.id == s.original.id() && s.original.exists {
			s.placement = inPlace
			w.unstage(s)
			return nil
		}

		if done, err := w.linkExisting(dir, tmp, s, f); done || err != nil {
			return err
		}
	}

	if first := f.firstStep; first != nil {
		from, err := w.host.newDirFD(first.change.Path.Dir)
		if err == nil {
			err = unix.Linkat(from, cmp.Or(first.tempName, first.change.Path.Name), dir, tmp, 0)
			_ = unix.Close(from) // an O_PATH descriptor, so an error of close means nothing
		}
		if err == nil || !cannotLink(err) {
			return err
		} // otherwise the path gets a copy of the file
	}

	f.firstStep = s

	switch n.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := w.writeFile(dir, tmp, s); err != nil {
			return err
		}
	case unix.S_IFLNK:
		if err := unix.Symlinkat(n.Target, dir, tmp); err != nil {
			return err
		}
	default:
		if err := unix.Mknodat(dir, tmp, n.Mode&unix.S_IFMT|0o600, int(n.Rdev)); err != nil {
			return err
		}
	}

	err := w.placer.setAttrs(dir, tmp, c.Path, nil, n)
	if err == nil && s.isNewVersion() {
		err = w.markOverwriteForOwner(dir, tmp, s, n)
	}

	return err
}

// writeFile creates a regular file with the content of a step.
func (w *writer) writeFile(dir int, tmp string, s *step) error {
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	return errors.Join(withoutPath(w.fillFile(f, s)), f.Close())
}

// fillFile writes the content of a step into a new file. Holes smaller than a block are filled with zeros, because a
// file may have millions of them.
func (w *writer) fillFile(f *os.File, s *step) error {
	c, src := s.change.After.Content, w.o.Source.Files
	r := c.Reader(src)

	for end := int64(0); end < c.Size(); {
		begin, err := c.SeekData(src, end, content.SeekBlockSize)
		if errors.Is(err, content.ErrNoData) {
			break
		}
		if err == nil {
			end, err = c.SeekHole(src, begin, content.SeekBlockSize)
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(f, begin), stream.WithContext(w.ctx, io.NewSectionReader(r, begin, end-begin)))
		}
		if err != nil {
			return err
		}
	}

	return f.Truncate(c.Size())
}
