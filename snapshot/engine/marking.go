package engine

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxRememberedRoots is the largest number of unmarked snapshots that one call of Marker.Remember remembers.
// More snapshots are remembered in several calls, see markRun.markSnapshots.
const maxRememberedRoots = 256

// A markRun marks the objects of all roots of a gc.
type markRun struct {
	*Collector
	ctx      context.Context
	marker   *cas.Marker
	local    localMarker
	src      *tree.Source
	previous *tree.State // the state that was marked last
}

// markState marks the objects of a state.
func (m *markRun) markState(st *tree.State) error {
	err := st.MarkInto(m.ctx, m.src, m.previous, m.Incomplete.Load(), m.local)
	m.previous = st
	return err
}

// markLeaf marks an object that references no objects. here is false if the object is damaged or
// missing, which does not stop the gc.
func (m *markRun) markLeaf(h cas.Hash) (here bool, err error) {
	here, err = m.Objects.Has(h)
	if here {
		m.local.MarkLeaf(h)
	}
	return here, err
}

// markSnapshots marks the snapshots that no earlier gc has marked. It remembers the oldest half of them
// together, then the oldest half of the rest, and so on: after the removal of a snapshot, the groups
// of older snapshots need not be marked again.
func (m *markRun) markSnapshots(all []SnapshotRoot) error {
	marked := make(map[cas.Hash]bool)
	remember := m.Objects.Remote == nil || !m.Objects.Remote.HasAny() // with a remote, marked snapshots are not remembered: an object that is fetched later may reference unmarked objects
	if remember {
		keys := make([]cas.Hash, len(all))
		for i := range all {
			keys[i] = all[i].Key()
		}

		var err error
		if marked, err = m.marker.Resume(keys); err != nil {
			return err
		}
	}

	left := make([]int, 0, len(all)-len(marked)) // indexes of the snapshots that are not marked
	for i := range all {
		if key := all[i].Key(); !marked[key] {
			marked[key] = true
			left = append(left, i)
		}
	}

	for at := -1; len(left) > 0; {
		n := len(left)
		if n > maxRememberedRoots {
			n /= 2
		}

		var keys []cas.Hash
		for _, i := range left[:n] {
			if i > 0 && i-1 != at { // snapshot i-1 was marked earlier
				m.previous, _ = tree.Load(m.src, all[i-1].ID) // after an error previous is nil, and marking takes longer
			}

			complete, err := m.markSnapshot(&all[i])
			if err != nil {
				return err
			}
			if at = i; complete {
				keys = append(keys, all[i].Key())
			}
		}

		left = left[n:]
		if remember {
			m.marker.Remember(keys)
		}
	}

	return nil
}

// markSnapshot marks a snapshot. complete is false if an actor set or the whole state is missing.
func (m *markRun) markSnapshot(r *SnapshotRoot) (complete bool, err error) {
	complete = true
	for _, h := range r.ActorSets {
		here, err := m.markLeaf(h)
		if err != nil {
			return false, err
		}
		complete = complete && here
	}

	st, err := tree.Load(m.src, r.ID)
	if errors.Is(err, cas.ErrNotFound) && m.Incomplete.Load() {
		return false, nil // the whole state is lost
	}
	if err != nil {
		return false, err
	}

	return complete, m.markState(st)
}

// A localMarker is a cas.Marker that skips objects on remotes.
type localMarker struct {
	objects tree.Objects
	marker  *cas.Marker
}

func (m localMarker) Mark(h cas.Hash) bool { return m.objects.MayBeInStore(h) && m.marker.Mark(h) }

func (m localMarker) MarkLeaf(h cas.Hash) {
	if m.objects.MayBeInStore(h) {
		m.marker.MarkLeaf(h)
	}
}

func (m localMarker) Put(kind cas.Kind, b []byte) (cas.Hash, error) { return m.objects.Put(kind, b) }

func (m localMarker) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if m.objects.Remote != nil {
		return m.objects.Get(h, dst)
	}
	return m.marker.Read(h, dst)
}
