package hostdir

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// A pathSet is a set of paths in a directory.
type pathSet struct {
	all   bool
	paths map[string]bool // the value is true if all paths below are in the set, too
}

// has reports whether a path is in the set. A nil set has all paths.
func (x *pathSet) has(p string) bool {
	if x == nil || x.all {
		return true
	}
	if _, ok := x.paths[p]; ok {
		return true
	}

	for ; p != "."; p = path.Dir(p) {
		if x.paths[p] {
			return true
		}
	}

	return false
}

// add adds a path and the directories above it, and with below all paths below it.
func (x *pathSet) add(p string, below bool) {
	x.paths[p] = x.paths[p] || below
	for p = path.Dir(p); p != "."; p = path.Dir(p) {
		x.paths[p] = x.paths[p]
	}
}

// changedPaths returns the paths that the steps may change. If a step changes a file with several hard links, it
// returns all paths of the directory, because the links may be anywhere.
func (pl *planner) changedPaths() *pathSet {
	x := &pathSet{paths: make(map[string]bool)}
	for _, d := range pl.steps {
		if d.change.Path == nil {
			continue
		}

		x.add(d.change.Path.String(), false)
		x.all = x.all || d.seen.exists && !d.seen.isDir() && d.seen.st.Nlink > 1
	}

	for _, g := range pl.res.Git {
		x.add(g.Dir, true)
	}

	return x
}

// recordAround calls run between the two calls of Record.
func (pl *planner) recordAround(run func() error) error {
	if pl.o.Record == nil || len(pl.res.Paths)+len(pl.res.Git) == 0 {
		return run()
	}

	o := pl.o.Read
	o.only = pl.changedPaths()
	call := func(ctx context.Context, after bool) error {
		return pl.o.Record(after, func(was *tree.State, sink stream.Sink) error {
			return ReadChanges(ctx, pl.res.Dir, pl.o.Source, was, sink, o)
		})
	}

	if err := call(pl.ctx, false); err != nil {
		return err
	}
	if err := pl.updateChangeTimes(); err != nil {
		return err
	}

	err := run()
	return errors.Join(err, call(context.WithoutCancel(pl.ctx), true))
}

// updateChangeTimes updates the recorded change times of files whose mode was changed and restored in order to
// read them. Without it, the writer would take these files for changed.
func (pl *planner) updateChangeTimes() error {
	for _, d := range pl.steps {
		if !d.seen.exists || d.seen.st.Mode&unix.S_IRUSR != 0 {
			continue
		}

		now, err := pl.host.look(d.change.Path)
		if err != nil {
			return err
		}

		was, at := d.seen, now.st.Ctim
		if was.st.Ctim = at; !was.changed(now) {
			d.seen.st.Ctim = at
		}
	}

	return nil
}
