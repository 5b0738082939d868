package tree

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// An Elsewhere is a second source of objects, such as the snapshots on a remote.
type Elsewhere interface {
	// Any reports whether the Elsewhere has any objects.
	Any() bool
	// Has reports whether the Elsewhere has an object and all objects below it. It may wait for a network.
	Has(h cas.Hash) (bool, error)
	// Get does as cas.Store.Get. It may wait for a network, too.
	Get(h cas.Hash, dst []byte) ([]byte, error)
	// Near does as Get, but does not wait. If the object is not on this machine, the error is a cas.AbsentError.
	Near(h cas.Hash, dst []byte) ([]byte, error)
}

// Objects are the objects of a store and of an Elsewhere. An object that was read from Elsewhere is
// not put into the store, because Elsewhere caches it.
type Objects struct {
	*cas.Store
	Elsewhere Elsewhere // may be nil
}

// Get returns an object of the store or, after a wait for the network, of Elsewhere.
func (o Objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Elsewhere.Get(h, dst) })
}

// get returns an object of the store. If the store does not have it, get returns the result of elsewhere.
func (o Objects) get(h cas.Hash, dst []byte, elsewhere func() ([]byte, error)) ([]byte, error) {
	b, err := o.Store.Get(h, dst)
	if o.Elsewhere != nil && errors.Is(err, cas.ErrNotFound) {
		return elsewhere()
	}
	return b, err
}

// Near returns the objects for callers that hold a lock: its Get does not wait for a network.
func (o Objects) Near() content.ObjectStore { return nearObjects{o} }

type nearObjects struct{ Objects }

func (o nearObjects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Elsewhere.Near(h, dst) })
}

// Exists reports whether an object is in the store or in Elsewhere.
func (o Objects) Exists(h cas.Hash) (bool, error) {
	if here, err := o.Has(h); here || err != nil || o.Elsewhere == nil {
		return here, err
	}
	return o.Elsewhere.Has(h)
}

// Here reports whether an object may be in the store. If it returns false, the caller need not search the store
// for the objects below it either: every object that was sealed in this store was stored together with all
// objects above it. After an error Here returns true, and the caller's next access fails.
func (o Objects) Here(h cas.Hash) bool {
	if o.Elsewhere == nil || !o.Elsewhere.Any() {
		return true
	}
	if here, err := o.Has(h); here || err != nil {
		return true
	}

	only, err := o.Elsewhere.Has(h)
	return !only || err != nil
}

// Pushed loads a state that was sealed in another store. It also returns the highest inode number of
// the state, because new inodes need higher numbers. It copies the pages above the root directory
// into the store, so that mounting needs no network.
func (o Objects) Pushed(src *Source, id cas.Hash) (st *State, highest uint64, err error) {
	if st, err = Load(src, id); err != nil {
		return nil, 0, err
	}
	if highest, err = st.Highest(src); err != nil {
		return nil, 0, err
	}

	copier := NewSource(storeCopier{o}, nil, 1<<20)
	again, err := Load(copier, id)
	if err != nil {
		return nil, 0, err
	}

	_, err = again.Get(copier, RootIno)
	return st, highest, err
}

// A storeCopier puts the objects that are read through it into the store. These must be tree objects.
type storeCopier struct{ Objects }

func (c storeCopier) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := c.Objects.Get(h, dst)
	if err != nil {
		return nil, err
	}
	_, err = c.Put(cas.KindTree, b)
	return b, err
}
