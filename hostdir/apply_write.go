package hostdir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// unfinished are the permissions that a directory has at least until its entries are complete.
const unfinished = 0o700

// stage creates what a step needs under a temporary name.
func (a *applying) stage(s *applyStep) error {
	c := s.change
	if !s.todo || s.isStaged {
		return nil
	}
	s.isStaged = true
	if err := a.mayTouch(s); err != nil {
		return err
	}
	if s.seen.isDir() && (c.After == nil || !c.After.IsDir()) {
		if err := a.sweep(c.Path); err != nil {
			return err
		}
	}
	if c.After == nil {
		return a.mayChange(c.Path)
	}
	if s.forced && c.Path != nil {
		if err := a.stageParents(c.Path.Dir); err != nil {
			return err
		}
	}
	switch {
	case s.attrsOnly:
		return a.mayChangeAttrs(s)
	case c.After.IsDir():
		return a.stageDir(s, c.After.Mode&0o777|unfinished)
	case a.inPlace(s):
		a.markOverwrite(s)
		a.linked[c.After.Ino] = s
		a.staged = append(a.staged, s)
		return nil
	}
	dir, name, err := a.beside(s)
	if err == nil {
		err = a.write(dir, name, s)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
	}
	return nil
}

// beside returns where a path is written first: under a temporary name in its directory or, if that
// is new itself, under its own name.
func (a *applying) beside(s *applyStep) (dir int, name string, err error) {
	p := s.change.Path
	if dir, err = a.host.dirOf(p); err != nil || a.host.isNew(p.Dir) {
		return dir, p.Name, err
	}
	if _, err := a.openUp(dir, p.Dir); err != nil {
		return dir, "", err
	}
	if err := a.sweep(p.Dir); err != nil {
		return dir, "", err
	}
	s.temp = a.tempName()
	a.staged = append(a.staged, s)
	return dir, s.temp, nil
}

// unstage undoes beside.
func (a *applying) unstage(s *applyStep) {
	s.temp = ""
	a.staged = slices.DeleteFunc(a.staged, func(x *applyStep) bool { return x == s })
}

// moveLater has commit rename a file to its name.
func (a *applying) moveLater(s *applyStep) {
	a.unstage(s)
	a.staged = append(a.staged, s)
}

// entry returns the directory of a step's path and its present name in there.
func (a *applying) entry(s *applyStep) (dir int, name string, err error) {
	dir, err = a.host.dirOf(s.change.Path)
	return dir, cmp.Or(s.temp, nameOf(s.change.Path)), err
}

func (a *applying) stageDir(s *applyStep, mode uint32) error {
	dir, name, err := a.beside(s)
	if err == nil {
		err = unix.Mkdirat(dir, name, mode)
	}
	if at, lerr := statAt(dir, name); err == nil && lerr == nil && at.st.Mode&unfinished != unfinished {
		err = chmodIn(dir, name, mode) // a default ACL removed a part of it
	}
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", s.change.Path.Short(), err)
	}
	if s.temp != "" {
		a.host.alias[s.change.Path.String()] = s.temp
	}
	return nil
}

// stageParents makes the directories above a path that are missing.
func (a *applying) stageParents(p *tree.Path) error {
	if p == nil {
		return nil
	}
	if _, err := a.host.open(p); !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := a.stageParents(p.Dir); err != nil {
		return err
	}
	return a.stageDir(&applyStep{change: tree.Change{Path: p}}, 0o777)
}

// mayChange fails if the names in a directory cannot be changed.
func (a *applying) mayChange(p *tree.Path) error {
	dir, err := a.host.dirOf(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err == nil {
		_, err = a.openUp(dir, p.Dir)
	}
	if err == nil {
		err = unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err == nil {
		err = a.sweep(p.Dir)
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", p.Short(), err)
	}
	return nil
}

// removeBelow removes a file, or a directory with all that is in it.
func removeBelow(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", dir))
	if err != nil {
		return err
	}
	return errors.Join(root.RemoveAll(name), root.Close())
}

func (a *applying) skip(p *tree.Path, why string) {
	a.res.Skipped = append(a.res.Skipped, stream.Omission{Path: p.Short(), Reason: why})
}

// write creates the file of a step under its first name, with its content and attributes.
func (a *applying) write(dir int, tmp string, s *applyStep) error {
	c := s.change
	n := c.After
	f := a.fileOf(s)
	if f != nil && f.at != nil {
		if f.id == s.seen.id() && s.seen.exists {
			s.attrsOnly = true // another name of it was overwritten
			a.unstage(s)
			return nil
		}
		if done, err := a.linkKept(dir, tmp, s, f); done || err != nil {
			return err
		}
	}
	if to, ok := a.linked[n.Ino]; ok && len(n.Links) > 1 && bytes.Equal(to.merged, s.merged) {
		from, err := a.host.walk(to.change.Path.Dir)
		if err == nil {
			err = unix.Linkat(from, cmp.Or(to.temp, to.change.Path.Name), dir, tmp, 0)
			_ = unix.Close(from) // of a path alone
		}
		if err == nil || !cannotLink(err) {
			return err
		} // else it is a file of its own
	}
	a.linked[n.Ino] = s
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := a.writeFile(dir, tmp, s); err != nil {
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
	err := a.setAttrs(dir, tmp, c.Path, nil, n)
	if err == nil && a.isAgain(s) {
		err = a.keepOwner(dir, tmp, s, n)
	}
	return err
}

func (a *applying) writeFile(dir int, tmp string, s *applyStep) error {
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	return errors.Join(reason(a.fill(f, s)), f.Close())
}

// fill writes the content of a step into a new file.
func (a *applying) fill(f *os.File, s *applyStep) error {
	if s.merged != nil {
		_, err := f.Write(s.merged)
		return err
	}
	return a.copyData(f, s.change.After.Content)
}

// copyData writes the data of a file, without holes that are smaller than a block, of which there may
// be millions.
func (a *applying) copyData(f *os.File, c *content.Content) error {
	src := a.o.Source.Files
	r := c.Reader(src)
	for end := int64(0); end < c.Size(); {
		begin, err := c.SeekData(src, end, content.SeekBlock)
		if errors.Is(err, content.ErrNoData) {
			break
		}
		if err == nil {
			end, err = c.SeekHole(src, begin, content.SeekBlock)
		}
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(f, begin), stream.WithContext(a.ctx, io.NewSectionReader(r, begin, end-begin)))
		}
		if err != nil {
			return err
		}
	}
	return f.Truncate(c.Size())
}

// finishDir sets the attributes and time of a directory whose entries are complete.
func (a *applying) finishDir(s *applyStep) error {
	c := s.change
	if !s.todo {
		if c.Before != nil && c.Before.Mtime == c.After.Mtime {
			return nil
		}
		return a.setTime(s)
	}
	var was *tree.Inode
	if s.attrsOnly {
		was = a.baseOf(s)
	}
	n := *c.After
	if !s.seen.isDir() && n.Mode&unfinished != unfinished {
		n.Mode |= openMode // files in it may get their names later
	}
	dir, name, err := a.entry(s)
	if err == nil {
		err = a.setAttrs(dir, name, c.Path, was, &n)
	}
	if err != nil {
		return fmt.Errorf("setting the owner, mode and time of %q: %w", s.change.Path.Short(), err)
	}
	if o := a.opened[s.seen.st.Ino]; o != nil && s.seen.isDir() && (was == nil || was.Mode != c.After.Mode) {
		o.set = true
	}
	return nil
}
