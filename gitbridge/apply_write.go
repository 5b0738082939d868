package gitbridge

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// aheadBytes and aheadFiles bound what is read ahead of files that follow.
	aheadBytes = 16 << 20
	aheadFiles = 256

	// unfinished is the mode of a directory that is being filled.
	unfinished = 0o700
)

// run writes everything beside what it replaces, and then gives it its names. It
// returns when that is on disk. Until the last file is written, nothing has changed.
func (a *applying) run() error {
	defer a.discard()
	if err := a.stageAll(); err != nil {
		return err
	}
	for _, s := range a.steps {
		if s.todo {
			if err := a.check(s); err != nil {
				return err
			}
		}
	}
	all := a.res.Paths
	a.res.Paths = []steps.PathChange{}
	err := a.commit()
	if serr := unix.Syncfs(a.host.root); err == nil && serr != nil {
		err = fmt.Errorf("writing %s to disk: %w", a.res.Dir, serr)
	}
	a.res.Changed = len(a.res.Paths)
	if err == nil {
		a.res.Paths = all // in the order of paths
		return nil
	}
	a.res.Partial = true
	return fmt.Errorf("%w; %d of %d changes were applied: run it again for the rest", err, a.res.Changed, len(all))
}

func (a *applying) stageAll() error {
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
		if err := a.stage(s); err != nil {
			return err
		}
		if a.o.Progress != nil {
			a.o.Progress(Progress{Files: int64(i + 1)})
		}
	}
	for _, s := range slices.Backward(a.steps) {
		if c := s.change; s.todo && c.B != nil && c.B.IsDir() && !s.seen.isDir() {
			if err := a.finishDir(s); err != nil {
				return err
			}
		}
	}
	return a.ctx.Err()
}

// commit gives what is staged its names. It is not interrupted.
func (a *applying) commit() error {
	for _, s := range slices.Backward(a.steps) {
		if err := a.remove(s); err != nil {
			return err
		}
	}
	for _, st := range a.staged {
		if err := a.rename(st); err != nil {
			return err
		}
	}
	for _, s := range a.steps {
		if err := a.change(s); err != nil {
			return err
		}
	}
	for _, s := range slices.Backward(a.steps) {
		if c := s.change; c.B != nil && c.B.IsDir() && s.seen.isDir() {
			if err := a.finishDir(s); err != nil {
				return err
			}
			a.applied(s)
		}
	}
	return nil
}

// applied notes that a step is done.
func (a *applying) applied(s *applyStep) {
	if s != nil && s.todo && !s.done {
		s.done = true
		a.res.Paths = append(a.res.Paths, steps.PathChangeOf(live.StepOf(s.change)))
	}
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

// check fails if a path is not what it was when it was planned. Of a file that has
// another name, this run may have changed the link count and the attributes.
func (a *applying) check(s *applyStep) error {
	if s.seen.way != nil {
		return nil // what is above it is new
	}
	now, err := a.host.look(s.change.Path)
	if err != nil {
		return err
	}
	same := now.exists && now.st.Dev == s.seen.st.Dev && now.st.Ino == s.seen.st.Ino
	if s.seen.changed(now) && !(same && a.touched[s.seen.st.Ino]) {
		return fmt.Errorf("%q changed in %s meanwhile", s.change.Path.Short(), a.res.Dir)
	}
	return nil
}

// touch is called before the file of a step changes, or loses a name.
func (a *applying) touch(s *applyStep) {
	if s.seen.exists {
		a.touched[s.seen.st.Ino] = true
	}
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
	a.touch(s)
	err = unix.Unlinkat(dir, c.Path.Name, flags)
	if errors.Is(err, unix.ENOTEMPTY) && c.B == nil {
		return nil // what only the directory has stays
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", c.Path.Short(), err)
	}
	if c.B == nil {
		a.applied(s)
	}
	s.removed = true
	a.host.forget()
	return nil
}

// A stagedEntry is a file or a directory that this run made, and which does not have
// its name yet.
type stagedEntry struct {
	path *tree.Path
	step *applyStep // nil of a directory above
	done bool
}

// stage writes what comes beside the place where it belongs.
func (a *applying) stage(s *applyStep) error {
	c := s.change
	switch {
	case !s.todo:
		return nil
	case c.B == nil:
		return a.mayChange(c.Path)
	}
	if a.o.Conflicts == threeway.TakeTheirs {
		if err := a.stageParents(c.Path.Dir); err != nil {
			return err
		}
	}
	switch {
	case c.B.IsDir() && s.seen.isDir():
		return nil // only its rights change
	case c.B.IsDir():
		return a.stageDir(c.Path, s, unfinished)
	case s.attrsOnly():
		if uid := os.Geteuid(); uid != 0 && s.seen.st.Uid != uint32(uid) {
			return fmt.Errorf("changing %q: %w", c.Path.Short(), unix.EPERM)
		}
		return nil
	}
	dir, name, err := a.beside(c.Path, s)
	if err == nil {
		err = a.write(dir, name, s)
	}
	if errors.Is(err, errNoPlace) {
		a.skip(c.Path, "sockets are not carried")
		s.todo = false
		a.unstage(c.Path)
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
	}
	if len(c.B.Links) > 1 {
		a.linked[c.B.Ino], a.linkedText[c.B.Ino] = c.Path, s.merged
	}
	return nil
}

// attrsOnly reports whether only the rights, extended attributes or the time of a file
// change.
func (s *applyStep) attrsOnly() bool {
	c := s.change
	return c.A != nil && c.What&(tree.Type|tree.Data|tree.Target|tree.Rdev|tree.Links) == 0 && s.seen.exists && !s.forced
}

// beside returns where a path is written first: beside its place, or in its place in a
// directory that is new itself. What an earlier run left there goes.
func (a *applying) beside(p *tree.Path, s *applyStep) (dir int, name string, err error) {
	if dir, err = a.host.openNew(p.Dir); err != nil || a.host.isNew(p.Dir) {
		return dir, p.Name, err
	}
	name = tempName(p)
	if err := removeBelow(dir, name); err != nil {
		return dir, name, err
	}
	a.host.alias[p.String()] = name
	a.staged = append(a.staged, &stagedEntry{path: p, step: s})
	return dir, name, nil
}

// unstage is for what was not written after all.
func (a *applying) unstage(p *tree.Path) {
	if a.host.alias[p.String()] != "" {
		delete(a.host.alias, p.String())
		a.staged = a.staged[:len(a.staged)-1]
	}
}

func (a *applying) stageDir(p *tree.Path, s *applyStep, mode uint32) error {
	dir, name, err := a.beside(p, s)
	if err == nil {
		err = unix.Mkdirat(dir, name, mode)
	}
	if err != nil {
		return fmt.Errorf("making the directory %q: %w", p.Short(), err)
	}
	return nil
}

// stageParents makes the directories above a path that are gone.
func (a *applying) stageParents(p *tree.Path) error {
	if p == nil {
		return nil
	}
	if _, err := a.host.openNew(p); !errors.Is(err, unix.ENOENT) {
		return err
	}
	if err := a.stageParents(p.Dir); err != nil {
		return err
	}
	return a.stageDir(p, nil, 0o777)
}

// mayChange fails if the names in a directory cannot be changed.
func (a *applying) mayChange(p *tree.Path) error {
	dir, err := a.host.open(p.Dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err == nil {
		err = unix.Faccessat(dir, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", p.Short(), err)
	}
	return nil
}

// rename gives what is staged its name.
func (a *applying) rename(st *stagedEntry) error {
	p := st.path
	if s := st.step; s != nil {
		if !s.removed {
			if err := a.check(s); err != nil {
				return err
			}
		}
		a.touch(s)
	}
	dir, name, err := a.host.entry(p)
	if err == nil {
		err = unix.Renameat(dir, name, dir, p.Name)
	}
	if err == nil {
		// After a rename onto another name of the same file both are still there.
		if uerr := unix.Unlinkat(dir, name, 0); uerr != nil && !errors.Is(uerr, unix.ENOENT) {
			err = uerr
		}
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", p.Short(), err)
	}
	st.done = true
	delete(a.host.alias, p.String())
	a.host.forget()
	a.applied(st.step)
	return nil
}

// change does what needs no other file: rights and times. What came in a new directory
// is there by now.
func (a *applying) change(s *applyStep) error {
	c := s.change
	switch {
	case c.B == nil || c.B.IsDir() && s.seen.isDir():
		return nil
	case !s.todo:
		if c.B.IsDir() || c.What&tree.Mtime == 0 || c.A == nil {
			return nil
		}
		return a.setTime(c) // it is the same but for the time
	case s.attrsOnly():
		if err := a.check(s); err != nil {
			return err
		}
		a.touch(s)
		dir, err := a.host.open(c.Path.Dir)
		if err == nil {
			err = a.setAttrs(dir, c.Path.Name, s)
		}
		if err != nil {
			return fmt.Errorf("writing %q: %w", c.Path.Short(), err)
		}
	}
	a.applied(s)
	return nil
}

// discard removes what this run made that did not get its name.
func (a *applying) discard() {
	for _, st := range slices.Backward(a.staged) {
		if st.done {
			continue
		}
		if dir, name, err := a.host.entry(st.path); err == nil && name != st.path.Name {
			_ = removeBelow(dir, name) // the next run tries again
		}
	}
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
	if to, ok := a.linked[n.Ino]; ok && len(n.Links) > 1 && bytes.Equal(a.linkedText[n.Ino], s.merged) {
		from, err := a.host.walk(to.Dir, true)
		if err == nil {
			err = unix.Linkat(from, a.host.name(to), dir, tmp, 0)
			_ = unix.Close(from) // of a path alone
		}
		if err == nil {
			return nil
		} // else it is a file of its own
	}
	switch n.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if err := a.writeFile(dir, tmp, s); err != nil {
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

func (a *applying) writeFile(dir int, tmp string, s *applyStep) error {
	c := s.change
	fd, err := unix.Openat(dir, tmp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), tmp)
	if s.merged != nil {
		_, err = f.Write(s.merged)
		return errors.Join(reason(err), f.Close())
	}
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

// finishDir gives a directory its rights and time, when all that it holds is there.
func (a *applying) finishDir(s *applyStep) error {
	c := s.change
	dir, name, err := a.host.entry(c.Path)
	if err != nil {
		return err
	}
	if !s.todo {
		return a.setTime(c)
	}
	if err := a.own(dir, name, s); err != nil {
		return fmt.Errorf("setting the owner of %q: %w", c.Path.Short(), err)
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
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
	return a.setTime(c)
}
