package tree

import (
	"errors"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
)

// An Elsewhere has objects that the store need not have.
type Elsewhere interface {
	// Any reports whether there is anything.
	Any() bool
	// Has reports whether it has an object, and with it all that is below. It may
	// wait for a network.
	Has(h cas.Hash) (bool, error)
	// Get is cas.Store.Get. It may wait, too.
	Get(h cas.Hash, dst []byte) ([]byte, error)
	// Near is Get without waiting: for what is not on this machine it gives a
	// cas.Absent error.
	Near(h cas.Hash, dst []byte) ([]byte, error)
}

// Objects are the objects of a store and of an Elsewhere, such as the snapshots on a remote. Objects
// that are read elsewhere are not put into the store: Elsewhere caches them.
type Objects struct {
	*cas.Store
	Elsewhere Elsewhere // nil if there is nothing elsewhere
}

// Get waits for what is elsewhere.
func (o Objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Elsewhere.Get(h, dst) })
}

func (o Objects) get(h cas.Hash, dst []byte, elsewhere func() ([]byte, error)) ([]byte, error) {
	b, err := o.Store.Get(h, dst)
	if o.Elsewhere != nil && errors.Is(err, cas.ErrNotFound) {
		b, err = elsewhere()
	}
	return b, err
}

// Near are the objects for callers that hold a lock: Get does not wait.
func (o Objects) Near() content.ObjectStore { return near{o} }

type near struct{ Objects }

func (o near) Get(h cas.Hash, dst []byte) ([]byte, error) {
	return o.get(h, dst, func() ([]byte, error) { return o.Elsewhere.Near(h, dst) })
}

// Exists reports whether an object is in the store or elsewhere.
func (o Objects) Exists(h cas.Hash) (bool, error) {
	if here, err := o.Has(h); here || err != nil || o.Elsewhere == nil {
		return here, err
	}
	return o.Elsewhere.Has(h)
}

// Here reports whether an object may be in the store. If it is not, nothing that it refers to is
// needed in the store: what is sealed here has all objects above it in the store, too. After an
// error it is true, and the caller's next access fails.
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

// Pushed loads a state that was made elsewhere, and returns its highest inode number: new inodes
// get higher ones. It stores the pages with the root, so that mounting needs no network.
func (o Objects) Pushed(src *Source, id cas.Hash) (st *State, highest uint64, err error) {
	if st, err = Load(src, id); err == nil {
		highest, err = st.Highest(src)
	}
	if err != nil {
		return nil, 0, err
	}
	copying := NewSource(copied{o}, nil, 1<<20)
	again, err := Load(copying, id)
	if err == nil {
		_, err = again.Get(copying, RootIno)
	}
	return st, highest, err
}

// copied stores the tree pages that are read.
type copied struct{ Objects }

func (c copied) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := c.Objects.Get(h, dst)
	if err == nil {
		_, err = c.Put(cas.KindTree, b)
	}
	return b, err
}
