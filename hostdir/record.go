package hostdir

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/naming"
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
	_, ok := x.paths[p]
	return ok || naming.NearestIn(p, x.paths) != ""
}

// add adds a path and the directories above it. If recursive is set, it also adds all paths below the path.
func (x *pathSet) add(p string, recursive bool) {
	x.paths[p] = x.paths[p] || recursive
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
		x.all = x.all || d.original.exists && !d.original.isDir() && d.original.st.Nlink > 1
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
	o.onlyPaths = pl.changedPaths()
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
		if !d.original.exists || d.original.st.Mode&unix.S_IRUSR != 0 {
			continue
		}

		present, err := pl.host.entryAt(d.change.Path)
		if err != nil {
			return err
		}

		original, ctime := d.original, present.st.Ctim
		if original.st.Ctim = ctime; !original.differsFrom(present) {
			d.original.st.Ctim = ctime
		}
	}

	return nil
}
