package hostdir

import (
	"context"
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// An extent is a set of paths of a directory.
type extent struct {
	all   bool
	paths map[string]bool // true: with all paths below
}

// has reports whether a path is in the extent. A nil extent has all paths.
func (x *extent) has(p string) bool {
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

// add adds a path and the directories above it.
func (x *extent) add(p string, below bool) {
	x.paths[p] = x.paths[p] || below
	for p = path.Dir(p); p != "."; p = path.Dir(p) {
		x.paths[p] = x.paths[p]
	}
}

// extent returns the paths that the steps may change. If a file has several names, these are all paths:
// the others may be anywhere.
func (pl *planner) extent() *extent {
	x := &extent{paths: make(map[string]bool)}
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

// record calls run between the two calls of Record.
func (pl *planner) record(run func() error) error {
	if pl.o.Record == nil || len(pl.res.Paths)+len(pl.res.Git) == 0 {
		return run()
	}

	o := pl.o.Read
	o.only = pl.extent()
	call := func(ctx context.Context, after bool) error {
		return pl.o.Record(after, func(was *tree.State, sink stream.Sink) error {
			return ReadChanges(ctx, pl.res.Dir, pl.o.Source, was, sink, o)
		})
	}

	if err := call(pl.ctx, false); err != nil {
		return err
	}
	if err := pl.lookAgain(); err != nil {
		return err
	}

	err := run()
	return errors.Join(err, call(context.WithoutCancel(pl.ctx), true))
}

// lookAgain takes over the new change times of files that only became readable, for a moment, to be read.
func (pl *planner) lookAgain() error {
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
