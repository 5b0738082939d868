package tree

import (
	"errors"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
)

// Resident returns a source with the same caches for callers that hold a lock: it reads no disk.
// What is in none of them is an Unread error, for which Again reads it.
func (s *Source) Resident() *Source {
	return s.With(&resident{ObjectStore: s.objects, held: make(map[cas.Hash]*heldObject)})
}

// resident are the objects that were read for calls under way.
type resident struct {
	content.ObjectStore // where they are read
	mu                  sync.Mutex
	held                map[cas.Hash]*heldObject
	many                sync.Mutex // held by the one call that has more than MaxHeld
}

// MaxHeld is how many objects each of many calls may lack: they stay in memory meanwhile.
const MaxHeld = 64

type heldObject struct {
	raw   []byte
	err   error
	calls int
}

func (r *resident) Get(h cas.Hash, _ []byte) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.held[h]; o != nil {
		return o.raw, o.err
	}
	return nil, &Unread{r, h}
}

// An Unread error reports that an object is not in memory. The call that needed it has changed
// nothing that anybody sees.
type Unread struct {
	objects *resident
	hash    cas.Hash
}

func (u *Unread) Error() string { return "it is not in memory" }

// Unwrap gives it the kind of what is not damaged.
func (u *Unread) Unwrap() error { return errs.Away }

// read reads the object, or finds out why it cannot be read, for the next call.
func (u *Unread) read() {
	raw, err := u.objects.ObjectStore.Get(u.hash, nil)
	u.objects.mu.Lock()
	defer u.objects.mu.Unlock()
	o := u.objects.held[u.hash]
	if o == nil {
		o = &heldObject{raw: raw, err: err}
		u.objects.held[u.hash] = o
	}
	o.calls++
}

// release is called for each read, when the object is not needed again or is in a cache.
func (u *Unread) release() {
	u.objects.mu.Lock()
	defer u.objects.mu.Unlock()
	o := u.objects.held[u.hash]
	if o.calls--; o.calls == 0 {
		delete(u.objects.held, u.hash)
	}
}

// Again calls fn, which takes and releases a lock, and calls it again each time after an object
// that it lacked was read without the lock. Until Again returns, no object is lacked twice,
// whatever the caches drop, so it ends.
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
		if len(all) == MaxHeld {
			u.objects.many.Lock()
			defer u.objects.many.Unlock()
		}
		u.read()
		all = append(all, u)
	}
}
