package gitbridge

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// aheadBytes and aheadFiles bound what is read ahead of files that follow.
	aheadBytes = 16 << 20
	aheadFiles = 256
)

// run carries what was planned, and returns when it is on disk.
func (a *applying) run() error {
	for _, s := range slices.Backward(a.steps) {
		if err := a.remove(s); err != nil {
			return err
		}
	}
	ahead := 0
	for i, s := range a.steps {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if i >= ahead {
			var err error
			if ahead, err = a.prefetch(i); err != nil {
				return err
			}
		}
		if err := a.put(s); err != nil {
			return err
		}
		if a.o.Progress != nil {
			a.o.Progress(Progress{Files: int64(i + 1)})
		}
	}
	for _, s := range slices.Backward(a.steps) {
		if c := s.change; c.B != nil && c.B.IsDir() {
			if err := a.finishDir(s); err != nil {
				return err
			}
		}
	}
	if err := unix.Syncfs(a.host.root); err != nil {
		return fmt.Errorf("writing %s to disk: %w", a.res.Dir, err)
	}
	return nil
}

// prefetch asks for the contents of the steps from i on, and returns where to ask
// again.
func (a *applying) prefetch(i int) (next int, err error) {
	var hashes []cas.Hash
	bytes := int64(0)
	for next = i; next < len(a.steps) && next < i+aheadFiles && bytes < aheadBytes; next++ {
		s := a.steps[next]
		if n := s.change.B; a.o.Prefetch != nil && s.todo && n != nil && n.IsRegular() && n.Size() < aheadBytes {
			bytes += n.Size()
			if err := n.Content.EachObject(a.o.Source.Files, func(h cas.Hash, isList bool) (bool, error) {
				if !isList {
					hashes = append(hashes, h)
				}
				return isList, nil
			}); err != nil {
				return next, err
			}
		}
	}
	if len(hashes) == 0 {
		return next, nil
	}
	return next, a.o.Prefetch(hashes)
}

// check fails if a path is not what it was when it was planned.
func (a *applying) check(s *applyStep) error {
	now, err := a.host.look(s.change.Path)
	if err == nil && s.seen.changed(now) {
		err = fmt.Errorf("%q changed in %s while it was looked at; run it again", s.change.Path.Short(), a.res.Dir)
	}
	return err
}

// remove takes away what goes, or makes room for something of another type.
func (a *applying) remove(s *applyStep) error {
	c := s.change
	if !s.todo || !s.seen.exists || c.B != nil && s.seen.isDir() == c.B.IsDir() {
		return nil
	}
	if err := a.check(s); err != nil {
		return err
	}
	dir, err := a.host.open(c.Path.Dir)
	if err != nil {
		return err
	}
	flags := 0
	if s.seen.isDir() {
		flags = unix.AT_REMOVEDIR
	}
	err = unix.Unlinkat(dir, c.Path.Name, flags)
	if errors.Is(err, unix.ENOTEMPTY) && c.B == nil {
		return nil // what only the directory has stays
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", c.Path.Short(), err)
	}
	s.seen = place{}
	a.host.forget()
	return nil
}

// put brings what comes, or changes.
func (a *applying) put(s *applyStep) error {
	c := s.change
	switch {
	case c.B == nil:
		return nil
	case !s.todo:
		if c.B.IsDir() || c.What&tree.Mtime == 0 || c.A == nil {
			return nil
		}
		return a.setTime(c) // it is the same but for the time
	case c.B.IsDir():
		return a.mkdir(s)
	}
	if a.o.Conflicts == snapshot.TakeTheirs {
		if err := a.makeParents(c.Path.Dir); err != nil {
			return err
		}
	}
	if err := a.check(s); err != nil {
		return err
	}
	dir, err := a.host.open(c.Path.Dir)
	if err != nil {
		return fmt.Errorf("opening the directory of %q: %w", c.Path.Short(), err)
	}
	if c.A != nil && c.What&(tree.Type|tree.Data|tree.Target|tree.Rdev|tree.Links) == 0 && s.seen.exists && !s.forced {
		return a.setAttrs(dir, c.Path.Name, s)
	}
	tmp := tempName(c.Path)
	if err := unix.Unlinkat(dir, tmp, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
	}
	err = a.write(dir, tmp, s)
	if err == nil {
		err = unix.Renameat(dir, tmp, dir, c.Path.Name)
	}
	// After a rename onto another name of the same file both are still there.
	if uerr := unix.Unlinkat(dir, tmp, 0); err == nil && uerr != nil && !errors.Is(uerr, unix.ENOENT) {
		err = uerr
	}
	if errors.Is(err, errNoPlace) {
		a.skip(c.Path, "sockets are not carried")
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
	}
	if len(c.B.Links) > 1 {
		a.linked[c.B.Ino] = c.Path
	}
	return nil
}

// tempName is where a path is written first. It is the same in every run, so that
// what one left that was killed goes with the next.
func tempName(p *tree.Path) string {
	sum := sha256.Sum256([]byte(p.String()))
	return fmt.Sprintf(".amberfs-apply-%x", sum[:8])
}

func (a *applying) skip(p *tree.Path, why string) {
	a.res.Skipped = append(a.res.Skipped, Omission{p.Short(), why})
}

// errNoPlace is for what is not carried.
var errNoPlace = errors.New("not carried")

// write makes the file under its first name, with all that it has.
func (a *applying) write(dir int, tmp string, s *applyStep) error {
	c := s.change
	n := c.B
	if to, ok := a.linked[n.Ino]; ok && len(n.Links) > 1 {
		from, err := a.host.walk(to.Dir)
		if err == nil {
			err = unix.Linkat(from, to.Name, dir, tmp, 0)
			_ = unix.Close(from) // of a path alone
		}
		if err == nil {
			return nil
		} // else it is a file of its own
	}
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := a.writeFile(dir, tmp, c); err != nil {
			return err
		}
	case unix.S_IFLNK:
		if err := unix.Symlinkat(n.Target, dir, tmp); err != nil {
			return err
		}
	case unix.S_IFSOCK:
		return errNoPlace
	default:
		if err := unix.Mknodat(dir, tmp, n.Mode&unix.S_IFMT|0o600, int(n.Rdev)); err != nil {
			return err
		}
	}
	return a.setAttrs(dir, tmp, s)
}

func (a *applying) writeFile(dir int, tmp string, c tree.Change) error {
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	parts, err := dataOf(a.o.Source, c.B.Content)
	r := c.B.Content.Reader(a.o.Source.Files)
	for _, e := range parts {
		if err == nil {
			_, err = io.Copy(io.NewOffsetWriter(f, e.Offset), &contextReader{a.ctx, io.NewSectionReader(r, e.Offset, e.Length)})
		}
	}
	if err == nil {
		err = f.Truncate(c.B.Size())
	}
	return errors.Join(reason(err), f.Close())
}

// unfinished is the mode of a directory that is being filled.
const unfinished = 0o700

// mkdir makes a directory that its user can fill. finishDir gives it its rights.
func (a *applying) mkdir(s *applyStep) error {
	p := s.change.Path
	if a.o.Conflicts == snapshot.TakeTheirs {
		if err := a.makeParents(p.Dir); err != nil {
			return err
		}
	}
	dir, err := a.host.open(p.Dir)
	if err == nil {
		err = unix.Mkdirat(dir, p.Name, unfinished)
	}
	if errors.Is(err, unix.EEXIST) && s.seen.isDir() {
		return nil // only its rights change
	}
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", p.Short(), err)
	}
	return nil
}

// makeParents makes the directories above a path that are gone.
func (a *applying) makeParents(p *tree.Path) error {
	if p == nil {
		return nil
	}
	if _, err := a.host.open(p); !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := a.makeParents(p.Dir); err != nil {
		return err
	}
	dir, err := a.host.open(p.Dir)
	if err == nil {
		err = unix.Mkdirat(dir, p.Name, 0o777)
	}
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", p.Short(), err)
	}
	return nil
}

// finishDir gives a directory its rights and time, when all that it holds is there.
func (a *applying) finishDir(s *applyStep) error {
	c := s.change
	dir, err := a.host.open(c.Path.Dir)
	if err != nil {
		return err
	}
	if s.todo {
		if err := a.own(dir, c.Path.Name, s); err != nil {
			return fmt.Errorf("setting the owner of %q: %w", c.Path.Short(), err)
		}
	}
	if s.todo || s.seen.st.Mode&0o7777 == unfinished && (c.A == nil || !c.A.IsDir()) {
		fd, err := unix.Openat(dir, c.Path.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("opening the directory %q: %w", c.Path.Short(), err)
		}
		proc := "/proc/self/fd/" + strconv.Itoa(fd)
		a.setXattrs(proc, c)
		err = unix.Chmod(proc, c.B.Mode&0o7777)
		_ = unix.Close(fd) // of a path alone
		if err != nil {
			return fmt.Errorf("setting the mode of %q: %w", c.Path.Short(), err)
		}
	}
	return a.setTime(c)
}
