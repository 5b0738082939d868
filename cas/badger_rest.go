package cas

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
)

// While Badger may be written it wakes up forty times a second to look whether
// something should be compacted, and holds two memtables; open for reading only, it
// still wakes up every two seconds. So a database that was not written to for
// restAfter is closed, and so is one that nobody read for readRest. Who needs it opens
// it again, for reading if that is enough. Writing is seldom: see flushObjects.
const (
	restAfter = 5 * time.Second
	readRest  = 30 * time.Second
)

// handles are the open Badgers.
type handles struct {
	mu   sync.Mutex
	now  *handle  // nil while it rests, after close, and if closing failed
	err  error    // why it failed
	lock *os.File // held while it rests or is open for reading, which locks nothing
	rest *time.Timer
}

// A handle is an open Badger, which is closed when another has taken its place and
// nobody uses it. Its fields are guarded by handles.mu.
type handle struct {
	db      *badger.DB
	writes  bool
	uses    int
	used    bool // since the last look whether it may rest
	retired bool
}

// use returns a Badger, to be given back with done.
func (x *database) use(write bool) (*handle, error) {
	x.open.mu.Lock()
	defer x.open.mu.Unlock()
	h := x.open.now
	switch {
	case h == nil && x.open.lock == nil:
		return nil, errors.Join(badger.ErrDBClosed, x.open.err)
	case write && (h == nil || !h.writes):
		if err := x.wake(); err != nil {
			return nil, err
		}
	case h == nil:
		if err := x.wakeToRead(); err != nil {
			return nil, err
		}
	}
	h = x.open.now
	if write {
		x.restLater(restAfter)
	}
	h.uses++
	h.used = true
	return h, nil
}

func (x *database) done(h *handle) {
	x.open.mu.Lock()
	defer x.open.mu.Unlock()
	if h.uses--; h.uses == 0 && h.retired {
		_ = x.shut(h) // it was for reading
	}
}

// wake opens Badger for writing. Who reads goes on with the old one. handles.mu is held.
func (x *database) wake() error {
	if err := checkTables(x.dir, 0); err != nil {
		return err
	}
	if err := x.open.unlock(); err != nil {
		return err
	}
	db, err := openBadger(x.options())
	if err != nil {
		x.open.lock, x.open.err = lockIndex(x.dir)
		return err
	}
	old := x.open.now
	x.open.now = &handle{db: db, writes: true}
	if old == nil {
		return nil
	}
	if old.retired = true; old.uses == 0 {
		return x.shut(old)
	}
	return nil
}

// wakeToRead opens Badger for reading. handles.mu is held.
func (x *database) wakeToRead() error {
	db, err := openBadger(x.o.WithReadOnly(true).WithBypassLockGuard(true))
	if err != nil {
		return err
	}
	x.open.now = &handle{db: db}
	x.restLater(readRest)
	return nil
}

// restLater has the database rest when it was not needed for a while. handles.mu is
// held, or nobody else has the database yet.
func (x *database) restLater(after time.Duration) {
	switch {
	case x.dir == "":
	case x.open.rest == nil:
		x.open.rest = time.AfterFunc(after, x.restNow)
	default:
		x.open.rest.Reset(after)
	}
}

// restNow closes Badger, unless it is in use.
func (x *database) restNow() {
	x.open.mu.Lock()
	defer x.open.mu.Unlock()
	h := x.open.now
	switch {
	case h == nil:
		return
	case h.writes && (h.uses > 0 || x.room != nil && x.room() != nil):
		x.restLater(restAfter)
		return
	case !h.writes && (h.uses > 0 || h.used):
		h.used = false
		x.restLater(readRest)
		return
	}
	x.open.now = nil
	if x.open.err = x.shut(h); x.open.err != nil || !h.writes {
		return
	}
	x.open.lock, x.open.err = lockIndex(x.dir)
}

// setRoom has the database look for room before it closes Badger, which writes.
func (x *database) setRoom(room func() error) {
	x.open.mu.Lock()
	defer x.open.mu.Unlock()
	x.room = room
}

func (o *handles) unlock() error {
	if o.lock == nil {
		return nil
	}
	f := o.lock
	o.lock = nil
	return f.Close()
}

// merge makes one table of those of the lowest level, once the database is closed.
func (x *database) merge() error {
	db, err := openBadger(x.o.WithCompactL0OnClose(true))
	if err != nil {
		return err
	}
	return x.shut(&handle{db: db})
}
