package engine

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// fewRoots is the number of snapshots that are remembered together.
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
	err := st.MarkFor(m.ctx, m.src, m.before, m.Incomplete.Load(), m.to)
	m.before = st
	return err
}

// leaf marks an object without objects below it. A damaged or missing one does not stop the gc.
func (m *marking) leaf(h cas.Hash) (here bool, err error) {
	here, err = m.Objects.Has(h)
	if here {
		m.to.KeepLeaf(h)
	}
	return here, err
}

// snapshots marks the snapshots that no earlier gc has marked. The oldest half of them is remembered
// together, then half of the others: if one is removed, the older ones need not be marked again.
func (m *marking) snapshots(all []SnapshotRoot) error {
	marked := make(map[cas.Hash]bool)
	remember := m.Objects.Elsewhere == nil || !m.Objects.Elsewhere.Any() // what is below a missing object may come back
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

	left := make([]int, 0, len(all)-len(marked)) // indexes of those that are not marked
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
			if i > 0 && i-1 != at { // it was marked, too
				m.before, _ = tree.Load(m.src, all[i-1].ID) // without it, marking takes longer
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

// snapshot marks a snapshot, and reports whether all of its objects are here.
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

func (m localKeeper) Keep(h cas.Hash) bool { return m.all.Here(h) && m.k.Keep(h) }

func (m localKeeper) KeepLeaf(h cas.Hash) {
	if m.all.Here(h) {
		m.k.KeepLeaf(h)
	}
}

func (m localKeeper) Put(kind cas.Kind, b []byte) (cas.Hash, error) { return m.all.Put(kind, b) }

func (m localKeeper) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if m.all.Elsewhere != nil {
		return m.all.Get(h, dst)
	}
	return m.k.Read(h, dst)
}
