package tree

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// RemoteObjects is a second source of objects, such as the snapshots on a remote.
type RemoteObjects interface {
	// HasAny reports whether there are any objects.
	HasAny() bool
	// Has reports whether there is an object with all objects below it. It may wait for a network.
	Has(h cas.Hash) (bool, error)
	// Get returns an object as cas.Store.Get does. It may wait for a network, too.
	Get(h cas.Hash, dst []byte) ([]byte, error)
	// GetLocal returns an object as Get does, but does not wait for a network. If the object is not on this
	// machine, the error is a cas.AbsentError.
	GetLocal(h cas.Hash, dst []byte) ([]byte, error)
}

// Objects are the objects of a store and of RemoteObjects. A remote object that was read is not put into the
// store, because RemoteObjects caches it.
type Objects struct {
	*cas.Store
	Remote RemoteObjects // may be nil
}

// Get returns an object of the store or, after a wait for the network, of Remote.
func (o Objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Remote.Get(h, dst) })
}

// get returns an object of the store. If the store does not have the object, get returns the result of getRemote.
func (o Objects) get(h cas.Hash, dst []byte, getRemote func() ([]byte, error)) ([]byte, error) {
	b, err := o.Store.Get(h, dst)
	if o.Remote != nil && errors.Is(err, cas.ErrNotFound) {
		return getRemote()
	}
	return b, err
}

// Local returns the objects for callers that hold a lock: its Get does not wait for a network.
func (o Objects) Local() content.ObjectStore { return localObjects{o} }

type localObjects struct{ Objects }

func (o localObjects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Remote.GetLocal(h, dst) })
}

// Exists reports whether an object is in the store or in Remote.
func (o Objects) Exists(h cas.Hash) (bool, error) {
	if inStore, err := o.Has(h); inStore || err != nil || o.Remote == nil {
		return inStore, err
	}
	return o.Remote.Has(h)
}

// MayBeInStore reports whether an object may be in the store. If it returns false, the store does not contain the
// objects below it either: every object that was sealed in this store was stored together with all objects above
// it. After an error it returns true, and the caller's next access fails.
func (o Objects) MayBeInStore(h cas.Hash) bool {
	if o.Remote == nil || !o.Remote.HasAny() {
		return true
	}
	if inStore, err := o.Has(h); inStore || err != nil {
		return true
	}

	inRemote, err := o.Remote.Has(h)
	return !inRemote || err != nil
}

// LoadPushed loads a state that was sealed in another store. It also returns the highest inode number of the
// state, because new inodes need higher numbers. It copies the pages that lead to the inode of the root directory
// into the store, so that mounting needs no network.
func (o Objects) LoadPushed(src *Source, id cas.Hash) (st *State, highest uint64, err error) {
	if st, err = Load(src, id); err != nil {
		return nil, 0, err
	}
	if highest, err = st.HighestIno(src); err != nil {
		return nil, 0, err
	}

	copier := NewSource(storeCopier{o}, nil, 1<<20)
	copied, err := Load(copier, id)
	if err != nil {
		return nil, 0, err
	}

	_, err = copied.Get(copier, RootIno)
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
