package snapshot

import (
	"errors"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A sandbox that hides a path which does not exist makes an empty file or directory there, to mount
// something on it, and may remove that at its end. In a snapshot it would be a file of the workspace's.

// placeholders returns the paths that a caller's sandbox made to mount something there: they are empty,
// the caller sees something else there, and neither the newest snapshot nor the base has them.
func (w *Workspace) placeholders(c actors.Caller) (left []naming.BytePath, err error) {
	covered := w.store.forest.Covered(w.ws.View, c.PID)
	if len(covered) == 0 {
		return nil, nil
	}
	now, letGo, err := w.Held("")
	if err != nil {
		return nil, err
	}
	defer letGo()

	var before []*tree.State
	for _, name := range []string{"latest", "base"} {
		switch st, release, err := w.Held(name); {
		case err == nil:
			defer release()
			before = append(before, st)
		case !errors.Is(err, catalogue.ErrNotFound):
			return nil, err
		}
	}
	for _, path := range covered {
		if empty, err := live.EmptyAt(w.store.src, now, path); err != nil || !empty {
			continue // a snapshot has what cannot be read
		}
		if !has(w.store.src, before, path) {
			left = append(left, naming.BytePath(path))
		}
	}
	return left, nil
}

// has reports whether one of some states has anything at a path, or that cannot be known.
func has(src *tree.Source, in []*tree.State, path string) bool {
	for _, st := range in {
		if _, err := live.EmptyAt(src, st, path); !errors.Is(err, tree.ErrNotExist) {
			return true
		}
	}
	return false
}
