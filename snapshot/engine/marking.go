package engine

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// fewRoots is the largest number of unmarked snapshots that one call of Keeper.Remember remembers.
// More snapshots are remembered in several calls, see marking.snapshots.
const fewRoots = 256

// A marking marks the objects of all roots of a gc.
type marking struct {
	*Collector
	ctx    context.Context
	k      *cas.Keeper
	to     localKeeper
	src    *tree.Source
	before *tree.State // the state that was marked last
}

// state marks the objects of a state.
func (m *marking) state(st *tree.State) error {
	err := st.MarkInto(m.ctx, m.src, m.before, m.Incomplete.Load(), m.to)
	m.before = st
	return err
}

// leaf marks an object that references no objects. here is false if the object is damaged or
// missing, which does not stop the gc.
func (m *marking) leaf(h cas.Hash) (here bool, err error) {
	here, err = m.Objects.Has(h)
	if here {
		m.to.MarkLeaf(h)
	}
	return here, err
}

// snapshots marks the snapshots that no earlier gc has marked. It remembers the oldest half of them
// together, then the oldest half of the rest, and so on: after the removal of a snapshot, the groups
// of older snapshots need not be marked again.
func (m *marking) snapshots(all []SnapshotRoot) error {
	marked := make(map[cas.Hash]bool)
	remember := m.Objects.Remote == nil || !m.Objects.Remote.HasAny() // an object that is fetched later may reference unmarked objects
	if remember {
		keys := make([]cas.Hash, len(all))
		for i := range all {
			keys[i] = all[i].Key()
		}

		var err error
		if marked, err = m.k.Resume(keys); err != nil {
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
		if n > fewRoots {
			n /= 2
		}

		var keys []cas.Hash
		for _, i := range left[:n] {
			if i > 0 && i-1 != at { // snapshot i-1 was marked earlier
				m.before, _ = tree.Load(m.src, all[i-1].ID) // after an error marking takes longer
			}

			complete, err := m.snapshot(&all[i])
			if err != nil {
				return err
			}
			if at = i; complete {
				keys = append(keys, all[i].Key())
			}
		}

		left = left[n:]
		if remember {
			m.k.Remember(keys)
		}
	}

	return nil
}

// snapshot marks a snapshot. complete is false if an actor set or the whole state is missing.
func (m *marking) snapshot(r *SnapshotRoot) (complete bool, err error) {
	complete = true
	for _, h := range r.Sets {
		here, err := m.leaf(h)
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

	return complete, m.state(st)
}

// A localKeeper is a cas.Keeper that skips objects on remotes.
type localKeeper struct {
	all tree.Objects
	k   *cas.Keeper
}

func (m localKeeper) Mark(h cas.Hash) bool { return m.all.MayBeInStore(h) && m.k.Mark(h) }

func (m localKeeper) MarkLeaf(h cas.Hash) {
	if m.all.MayBeInStore(h) {
		m.k.MarkLeaf(h)
	}
}

func (m localKeeper) Put(kind cas.Kind, b []byte) (cas.Hash, error) { return m.all.Put(kind, b) }

func (m localKeeper) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if m.all.Remote != nil {
		return m.all.Get(h, dst)
	}
	return m.k.Read(h, dst)
}
