package hostdir

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A writer carries out the steps of a plan. It does not use the planner.
type writer struct {
	ctx   context.Context
	o     ApplyOptions // only Source, Base, Now, Undo, Prefetch and Progress are used
	host  *host
	res   *ApplyResult
	repos Repositories

	steps     []*step     // sorted by path, a directory before its entries
	staged    []*step     // the steps whose state becomes placed by a rename or an overwrite, in the order of staging
	onAdvance func(*step) // for tests: called after each change of a step's state

	placer *placer
	dirs   changedDirs
}

func newWriter(ctx context.Context, h *host, o ApplyOptions, res *ApplyResult) *writer {
	p := &placer{h, res, make(map[uint64]bool)}
	return &writer{ctx: ctx, o: o, host: h, res: res, placer: p, dirs: changedDirs{p, o, make(map[string]*touchedDir)}}
}

// run stages all steps, and then places them. When it returns, the directory is on disk. Until all files are
// staged, the directory has not changed.
func (w *writer) run() error {
	defer w.discardStaged()

	if err := w.stageAll(); err != nil {
		return err
	}

	for _, s := range w.steps {
		if s.action != keep {
			if err := w.placer.checkUnchanged(s); err != nil {
				return err
			}
		}
	}

	if w.repos.AddObjects != nil {
		if err := w.repos.AddObjects(); err != nil {
			return err
		}
	}

	// A file must be on disk before its name.
	if err := unix.Syncfs(w.host.rootFD); err != nil {
		return fmt.Errorf("writing %s to disk: %w", w.res.Dir, err)
	}

	all := w.res.Paths
	w.res.Paths = []graft.PathChange{}
	err := w.commit()
	if err == nil && w.repos.Commit != nil {
		var skipped []stream.Omission
		skipped, err = w.repos.Commit()
		w.res.Skipped = append(w.res.Skipped, skipped...)
	}

	if serr := unix.Syncfs(w.host.rootFD); err == nil && serr != nil {
		err = fmt.Errorf("writing %s to disk: %w", w.res.Dir, serr)
	}

	w.res.Changed = len(w.res.Paths)
	if err == nil {
		w.res.Paths = all // the same paths as planned, in the order of paths
		return nil
	}

	w.res.Partial = true
	w.res.Files = 0
	for _, s := range w.steps {
		if s.action != keep && s.state >= placed {
			w.res.countFile(s)
		}
	}

	return fmt.Errorf("%w; %d of %d changes were applied: run it again for the rest", err, w.res.Changed, len(all))
}

// stageAll stages all steps, in the order of paths.
func (w *writer) stageAll() error {
	// Files that may have to be overwritten are staged before all others, because their other names become hard
	// links of them.
	for _, s := range w.steps {
		if f := s.file; f != nil && f.before != nil && f.path == nil && s.change.Before != nil && s.change.Before.Ino == f.before.Ino && isForeign(s.change.After) {
			if err := w.stageStep(s); err != nil {
				return err
			}
		}
	}

	prefetched := 0

	for i, s := range w.steps {
		if err := w.ctx.Err(); err != nil {
			return err
		}

		if i >= prefetched {
			var err error
			if prefetched, err = stream.Prefetch(w.o.Prefetch, w.o.Source, i, len(w.steps), func(i int) *tree.Inode {
				if s := w.steps[i]; s.action == write {
					return s.change.After
				}
				return nil
			}); err != nil {
				return err
			}
		}

		if err := w.sweepParent(s); err != nil {
			return err
		}
		if err := w.stageStep(s); err != nil {
			return err
		}
		if w.o.Progress != nil {
			w.o.Progress(stream.Progress{Files: int64(i + 1)})
		}
	}

	for _, s := range slices.Backward(w.steps) {
		if s.action == makeDir {
			err := w.placer.setDirAttrs(s)
			if err == nil {
				_, err = w.dirs.openDir(s.change.Path)
			}
			if err != nil {
				return err
			}
		}
	}

	return w.ctx.Err()
}

// commit renames the staged files to their final names. It does not stop if the context ends. A file's old name
// is removed after the new one was made, unless another file is placed at the old name.
func (w *writer) commit() error {
	replaced := make(map[string]bool) // directories that a file replaces
	for _, s := range w.steps {
		replaced[s.change.Path.String()] = s.action == write && s.original.isDir()
	}
	if err := w.moveAll(replaced); err != nil {
		return err
	}

	for _, s := range slices.Backward(w.steps) {
		if naming.NearestIn(s.change.Path.String(), replaced) != "" {
			if err := w.removeFile(s); err != nil {
				return err
			}
		}
	}

	for _, s := range w.staged {
		if err := w.placeFile(s); err != nil {
			return err
		}
	}

	for _, s := range slices.Backward(w.steps) {
		if err := w.removeFile(s); err != nil {
			return err
		}
	}

	for _, s := range w.steps {
		if err := w.finishFile(s); err != nil {
			return err
		}
	}

	w.dirs.restoreTimes()

	for _, s := range slices.Backward(w.steps) {
		switch c := s.change; {
		case c.After == nil || !c.After.IsDir():
		case s.original.isDir():
			if err := w.placer.setDirAttrs(s); err != nil {
				return err
			}
			w.advance(s, done)

		case s.action == makeDir:
			// A rename into the new directory may have changed its time, so the time is set again.
			if err := w.placer.setTime(s); err != nil {
				return err
			}
		}
	}

	if err := w.host.restoreModes(); err != nil {
		return fmt.Errorf("setting the mode of a directory: %w", err)
	}

	return nil
}

// advance sets the state of a step, unless its state is later already.
func (w *writer) advance(s *step, to state) {
	if s.action != keep && s.state < placed && to >= placed {
		w.res.Paths = append(w.res.Paths, graft.PathChangeOf(graft.StepOf(s.change)))
	}

	s.state = max(s.state, to)
	if w.onAdvance != nil {
		w.onAdvance(s)
	}
}

// removeFile carries out a step that removes a file or directory. It keeps a directory that has other entries.
func (w *writer) removeFile(s *step) error {
	c := s.change
	if s.action != remove || s.state >= placed || !s.original.exists {
		return nil
	}
	if err := w.placer.checkAndTouch(s); err != nil {
		return err
	}

	dir, err := w.host.parentFD(c.Path)
	if err != nil {
		return err
	}

	if s.original.isDir() {
		err = unix.Unlinkat(dir, c.Path.Name, unix.AT_REMOVEDIR)
	} else {
		err = w.placer.removeOriginal(dir, s)
	}
	if errors.Is(err, unix.ENOTEMPTY) {
		return nil // the directory stays: it has files that exist only on the host
	}
	if err != nil {
		return fmt.Errorf("removing %q: %w", c.Path.Short(), err)
	}

	w.advance(s, done)
	w.host.closeLastDir()

	return nil
}

// placeFile renames the staged file of a step to its final name.
func (w *writer) placeFile(s *step) error {
	if s.state >= placed {
		return nil // moveFile has renamed it together with another file
	}
	if err := w.placer.checkAndTouch(s); err != nil {
		return err
	}

	p := s.change.Path
	dir, err := w.host.parentFD(p)
	switch {
	case err != nil:
	case s.action == moveDir:
		if err = w.placer.checkAndTouch(s.sourceStep); err == nil {
			err = w.moveTo(s, false)
		}
	case s.placement == moveName && s.tempName == "":
		if err = w.moveFile(s); err == nil && s.tempName != "" {
			return nil // it is renamed later, when the directory at its path has been removed
		}
	case s.placement == overwrite:
		if err = w.overwriteFile(dir, s); err == nil {
			w.placer.touched[s.original.st.Ino] = true
			err = w.placer.changeAttrs(s)
		}

	default:
		err = w.placer.placeStaged(dir, s)
	}
	if err != nil {
		return fmt.Errorf("writing %q: %w", p.Short(), err)
	}

	s.tempName = ""
	delete(w.host.tempNames, p.String())
	w.host.closeLastDir()
	w.advance(s, placed)

	return nil
}

// finishFile sets the attributes and the time of a file that has its final name.
func (w *writer) finishFile(s *step) error {
	c := s.change
	if c.After == nil || c.After.IsDir() && s.original.isDir() {
		return nil
	}

	f := s.file
	fileExists := f != nil && f.path != nil && s.placement != overwrite
	switch {
	case f != nil && f.attrsSet && !w.placer.isCopiedApart(s, f):
	case s.action == keep:
		if !fileExists || c.Before == nil || c.Before.Mtime == c.After.Mtime {
			return nil
		}
		f.attrsSet = true
		return w.placer.setTime(s) // only the time differs

	case s.action == changeAttributes || s.placement == inPlace:
		if err := w.placer.checkAndTouch(s); err != nil {
			return err
		}
		fallthrough

	case fileExists:
		if err := w.placer.changeAttrs(s); err != nil {
			return err
		}
	}

	w.advance(s, done)

	return nil
}

// discardStaged removes the staged files that do not have their final names.
func (w *writer) discardStaged() {
	for _, s := range slices.Backward(w.staged) {
		dir, err := w.host.parentFD(s.change.Path)
		switch {
		case err != nil || s.tempName == "":
		case s.placement == moveName: // the file has no other name, so it is not removed
			if kept, err := setAside(dir, s.tempName); err == nil {
				w.res.addSkipped(s.change.Path.Dir.ChildUnchecked(kept), "the file from "+s.fromPath.Short()+", which could not get its name")
			}
		default:
			_ = removeBelow(dir, s.tempName) // if it fails, the next apply removes it
		}
	}

	if len(w.res.Paths) == 0 {
		w.dirs.restoreTimes()
	}
}
