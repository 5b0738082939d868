package snapshot

import (
	"errors"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A sandbox that hides a path which does not exist creates an empty file or directory there as a mount point, and
// may remove it when it ends. Such a placeholder should not be in snapshots.

// placeholders returns the paths of mount points that the caller's sandbox made: empty files and
// directories that are in neither the newest snapshot nor the base, and where the caller sees
// another file system.
func (w *Workspace) placeholders(c actors.Caller) (found []naming.BytePath, err error) {
	covered := w.store.forest.Takeover.CoveredPaths(w.ws.View, c.PID)
	if len(covered) == 0 {
		return nil, nil
	}

	now, releaseNow, err := w.HoldState("")
	if err != nil {
		return nil, err
	}
	defer releaseNow()

	var before []*tree.State

	for _, name := range []string{"latest", "base"} {
		switch st, release, err := w.HoldState(name); {
		case err == nil:
			defer release()
			before = append(before, st)
		case !errors.Is(err, catalogue.ErrNotFound):
			return nil, err
		}
	}

	for _, path := range covered {
		if empty, err := live.IsEmptyAt(w.store.src, now, path); err != nil || !empty {
			continue // the path stays in snapshots if it cannot be read
		}
		if !existsInAny(w.store.src, before, path) {
			found = append(found, naming.BytePath(path))
		}
	}

	return found, nil
}

// existsInAny reports whether a path exists in one of the states. It also returns true if a state cannot be read.
func existsInAny(src *tree.Source, states []*tree.State, path string) bool {
	for _, st := range states {
		if _, err := live.IsEmptyAt(src, st, path); !errors.Is(err, tree.ErrNotExist) {
			return true
		}
	}
	return false
}
