package hostdir

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// run writes everything under temporary names, and then renames it. It returns when that is on disk.
// Until the last file is written, nothing has changed.
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
	if a.repos.AddObjects != nil {
		if err := a.repos.AddObjects(); err != nil {
			return err
		}
	}
	// A file must be on disk before its name.
	if err := unix.Syncfs(a.host.root); err != nil {
		return fmt.Errorf("writing %s to disk: %w", a.res.Dir, err)
	}
	all := a.res.Paths
	a.res.Paths = []graft.PathChange{}
	err := a.commit()
	if err == nil && a.repos.Commit != nil {
		var skipped []stream.Omission
		skipped, err = a.repos.Commit()
		a.res.Skipped = append(a.res.Skipped, skipped...)
	}
	if serr := unix.Syncfs(a.host.root); err == nil && serr != nil {
		err = fmt.Errorf("writing %s to disk: %w", a.res.Dir, serr)
	}
	a.res.Changed = len(a.res.Paths)
	if err == nil {
		a.res.Paths = all // in the order of paths
		return nil
	}
	a.res.Partial = true
	a.countFiles(func(s *applyStep) bool { return s.done })
	return fmt.Errorf("%w; %d of %d changes were applied: run it again for the rest", err, a.res.Changed, len(all))
}

func (a *applying) stageAll() error {
	// Other names of a file that is overwritten are links to it.
	for _, s := range a.steps {
		if f := a.fileOf(s); f != nil && f.was != nil && f.at == nil && s.change.Before != nil && s.change.Before.Ino == f.was.Ino && isForeign(s.change.After) {
			if err := a.stage(s); err != nil {
				return err
			}
		}
	}
	ahead := 0
	for i, s := range a.steps {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		if i >= ahead {
			var err error
			if ahead, err = stream.Prefetch(a.o.Prefetch, a.o.Source, i, len(a.steps), func(i int) *tree.Inode {
				if s := a.steps[i]; s.todo {
					return s.change.After
				}
				return nil
			}); err != nil {
				return err
			}
		}
		if err := a.sweepAbove(s); err != nil {
			return err
		}
		if err := a.stage(s); err != nil {
			return err
		}
		if a.o.Progress != nil {
			a.o.Progress(stream.Progress{Files: int64(i + 1)})
		}
	}
	for _, s := range slices.Backward(a.steps) {
		if c := s.change; s.todo && c.After != nil && c.After.IsDir() && !s.seen.isDir() {
			err := a.finishDir(s)
			if err == nil {
				err = a.openDir(s)
			}
			if err != nil {
				return err
			}
		}
	}
	return a.ctx.Err()
}

// commit gives what is staged its names. It is not interrupted. A file loses its old name after it
// has the new one, except where the old name is in the way.
func (a *applying) commit() error {
	room := make(map[string]bool) // directories that something else replaces
	for _, s := range a.steps {
		room[s.change.Path.String()] = s.todo && s.change.After != nil && s.seen.isDir() && !s.change.After.IsDir()
	}
	if err := a.moveAll(room); err != nil {
		return err
	}
	for _, s := range slices.Backward(a.steps) {
		if inSet(s.change.Path, room) {
			if err := a.remove(s); err != nil {
				return err
			}
		}
	}
	for _, s := range a.staged {
		if err := a.rename(s); err != nil {
			return err
		}
	}
	for _, s := range slices.Backward(a.steps) {
		if err := a.remove(s); err != nil {
			return err
		}
	}
	for _, s := range a.steps {
		if err := a.change(s); err != nil {
			return err
		}
	}
	a.restoreTimes()
	for _, s := range slices.Backward(a.steps) {
		switch c := s.change; {
		case c.After == nil || !c.After.IsDir():
		case s.seen.isDir():
			if err := a.finishDir(s); err != nil {
				return err
			}
			a.applied(s)
		case s.todo: // a rename into it may have changed its time
			if err := a.setTime(s); err != nil {
				return err
			}
		}
	}
	if err := a.closeUp(); err != nil {
		return fmt.Errorf("setting the mode of a directory: %w", err)
	}
	return nil
}

// applied notes that a step is done.
func (a *applying) applied(s *applyStep) {
	if s.todo && !s.done {
		s.done = true
		a.res.Paths = append(a.res.Paths, graft.PathChangeOf(graft.StepOf(s.change)))
	}
}

// check fails if a path is not what it was when it was planned. This run may have made or
// removed another name of its file.
func (a *applying) check(s *applyStep) error {
	if s.seen.unreachable != nil {
		return nil // what is above it is new
	}
	now, err := a.host.look(s.change.Path)
	if err != nil {
		return err
	}
	if a.differs(s, now) {
		return a.changedMeanwhile(s)
	}
	return nil
}

// differs reports whether a file was changed, but for what this run did to it by another name.
func (a *applying) differs(s *applyStep, now place) bool {
	if now.isDir() {
		now.st.Mode, _ = a.closedMode(s.change.Path, now.st.Mode)
	}
	if a.copiedUp(s) {
		now.st.Dev, now.st.Ino = s.seen.st.Dev, s.seen.st.Ino
	}
	switch at := now.st.Ino; {
	case a.written[at]:
		return !now.isFile(s.seen)
	case a.touched[at]:
		now.st.Ctim = s.seen.st.Ctim
	}
	return s.seen.changed(now)
}

// copiedUp reports whether this run has moved the file of a step to the upper layer of overlayfs, by
// another or by this name. Then a file of the lower layer with several names gets another inode.
func (a *applying) copiedUp(s *applyStep) bool {
	return a.host.overlay && s.seen.exists && !s.seen.isDir() && s.seen.st.Nlink > 1 && a.touched[s.seen.st.Ino]
}

// begin is check before the file of a step changes, or loses a name.
func (a *applying) begin(s *applyStep) error {
	err := a.check(s)
	if s.seen.exists {
		a.touched[s.seen.st.Ino] = true
	}
	return err
}

func (a *applying) remove(s *applyStep) error {
	c := s.change
	if !s.todo || s.done || !s.seen.exists || c.After != nil {
		return nil
	}
	if err := a.begin(s); err != nil {
		return err
	}
	dir, err := a.host.dirOf(c.Path)
	if err != nil {
		return err
	}
	if s.seen.isDir() {
		err = unix.Unlinkat(dir, c.Path.Name, unix.AT_REMOVEDIR)
	} else {
		err = a.removeSeen(dir, s)
	}
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil // it has files that only the directory has
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", c.Path.Short(), err)
	}
	a.applied(s)
	a.host.forget()
	return nil
}

// rename gives what is staged its name.
func (a *applying) rename(s *applyStep) error {
	p := s.change.Path
	if s.done && s.from != nil {
		return nil
	}
	if err := a.begin(s); err != nil {
		return err
	}
	dir, err := a.host.dirOf(p)
	switch {
	case err != nil:
	case s.from != nil:
		if err = a.move(s); err == nil && s.temp != "" {
			return nil // it gets its name after the directory there was removed
		}
	case s.overwrites:
		if err = a.overwrite(dir, s); err == nil {
			a.written[s.seen.st.Ino] = true
			err = a.changeAttrs(s)
		}
	default:
		err = a.put(dir, s)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", p.Short(), err)
	}
	s.temp = ""
	delete(a.host.alias, p.String())
	a.host.forget()
	a.applied(s)
	return nil
}

// change sets attributes and times of files that are at their places.
func (a *applying) change(s *applyStep) error {
	c := s.change
	if c.After == nil || c.After.IsDir() && s.seen.isDir() {
		return nil
	}
	f := a.fileOf(s)
	switch known := f != nil && f.at != nil && !s.overwrites; {
	case f != nil && f.set && !a.isApart(s, f):
	case !s.todo:
		if !known || c.After.IsDir() || c.Before == nil || c.Before.Mtime == c.After.Mtime {
			return nil
		}
		f.set = true
		return a.setTime(s) // it is the same but for the time
	case s.attrsOnly:
		if err := a.begin(s); err != nil {
			return err
		}
		fallthrough
	case known:
		if err := a.changeAttrs(s); err != nil {
			return err
		}
	}
	a.applied(s)
	return nil
}

// discard removes what was staged and has not got its name.
func (a *applying) discard() {
	for _, s := range slices.Backward(a.staged) {
		if dir, err := a.host.dirOf(s.change.Path); err == nil && s.temp != "" {
			_ = removeBelow(dir, s.temp) // the next run tries again
		}
	}
	if len(a.res.Paths) == 0 {
		a.restoreTimes()
	}
}
