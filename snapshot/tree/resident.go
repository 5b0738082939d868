package tree

import (
	"errors"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Resident returns a source for callers that hold a lock. It has the same caches, and reads no
// disk: an object that is in no cache is an Unread error. Again reads it.
func (s *Source) Resident() *Source {
	return s.With(&resident{ObjectStore: s.objects, fetched: make(map[cas.Hash]*fetchedObject)})
}

// resident are the objects that were read for calls under way.
type resident struct {
	content.ObjectStore // where they are read
	mu                  sync.Mutex
	fetched             map[cas.Hash]*fetchedObject
	unbounded           sync.Mutex // of the one call that may have more than MaxFetched
}

// MaxFetched is how many objects a call may have in memory at the same time as other calls.
const MaxFetched = 64

type fetchedObject struct {
	raw   []byte
	err   error
	calls int
}

func (r *resident) Get(h cas.Hash, _ []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.fetched[h]; o != nil {
		return o.raw, o.err
	}
	return nil, &Unread{r, h}
}

// An Unread error means that an object is not in memory. The call that needed it has had no
// effect.
type Unread struct {
	objects *resident
	hash    cas.Hash
}

func (u *Unread) Error() string { return "it is not in memory" }

// Unwrap returns errs.Away: the object is not damaged.
func (u *Unread) Unwrap() error { return errs.Away }

// read reads the object, or finds out why it cannot be read, for the next call.
func (u *Unread) read() {
	raw, err := u.objects.ObjectStore.Get(u.hash, nil)
	u.objects.mu.Lock()
	defer u.objects.mu.Unlock()
	o := u.objects.fetched[u.hash]
	if o == nil {
		o = &fetchedObject{raw: raw, err: err}
		u.objects.fetched[u.hash] = o
	}
	o.calls++
}

// release ends the use of an object that read read.
func (u *Unread) release() {
	u.objects.mu.Lock()
	defer u.objects.mu.Unlock()
	o := u.objects.fetched[u.hash]
	if o.calls--; o.calls == 0 {
		delete(u.objects.fetched, u.hash)
	}
}

// Again calls fn, which takes and releases a lock. If fn returns an Unread error, Again reads the
// object without the lock and calls fn again. It ends, because what it has read stays in memory
// until it returns.
func Again(fn func() error) error {
	var all []*Unread
	defer func() {
		for _, u := range all {
			u.release()
		}
	}()
	for {
		err := fn()
		u, lacks := errors.AsType[*Unread](err)
		if !lacks {
			return err
		}
		if len(all) == MaxFetched {
			u.objects.unbounded.Lock()
			defer u.objects.unbounded.Unlock()
		}
		u.read()
		all = append(all, u)
	}
}
