package tree

import (
	"errors"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Resident returns a source for callers that hold a lock. It has the same caches, but does not read
// from disk: a method that needs an object which is in no cache fails with an Unread error. Again
// reads the object without the lock and repeats the call.
func (s *Source) Resident() *Source {
	return s.WithObjects(&residentStore{ObjectStore: s.objects, fetched: make(map[cas.Hash]*fetchedObject)})
}

// A residentStore is an object store with only the objects that were read for running calls of Again.
type residentStore struct {
	content.ObjectStore // from which Unread.read reads objects
	mu                  sync.Mutex
	fetched             map[cas.Hash]*fetchedObject
	unbounded           sync.Mutex // held by the one call of Again that has more than MaxFetched objects
}

// MaxFetched is how many objects a call of Again may have in memory. Further objects are allowed for
// one call at a time.
const MaxFetched = 64

// fetchedObject is the result of reading an object.
type fetchedObject struct {
	raw   []byte
	err   error
	calls int // number of running calls of Again that use the object
}

func (r *residentStore) Get(h cas.Hash, _ []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.fetched[h]; o != nil {
		return o.raw, o.err
	}
	return nil, &Unread{r, h}
}

// An Unread error means that an object is not in memory. The call that needed the object has had no effect.
type Unread struct {
	objects *residentStore
	hash    cas.Hash
}

func (u *Unread) Error() string { return "it is not in memory" }

// Unwrap returns errs.Unreachable, so that LoadError does not treat the object as damaged.
func (u *Unread) Unwrap() error { return errs.Unreachable }

// read reads the object, and records it or the read error for the next call.
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

// release drops the object, unless other calls of Again use it. It is called once for each read.
func (u *Unread) release() {
	u.objects.mu.Lock()
	defer u.objects.mu.Unlock()
	o := u.objects.fetched[u.hash]
	if o.calls--; o.calls == 0 {
		delete(u.objects.fetched, u.hash)
	}
}

// Again calls fn, which takes and releases a lock. While fn returns an Unread error, Again reads the
// object without the lock and calls fn again. The loop ends, because all objects that were read stay
// in memory until Again returns.
func Again(fn func() error) error {
	var all []*Unread
	defer func() {
		for _, u := range all {
			u.release()
		}
	}()
	for {
		err := fn()
		u, unread := errors.AsType[*Unread](err)
		if !unread {
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
