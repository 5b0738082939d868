package snapshot

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// createBytes are what a new name is taken for until it is counted.
	createBytes = 576
	// countShare is the part of the time that is spent counting at the most: one
	// in so many.
	countShare = 10
)

// A usage is how many bytes a fork of main has, with the forks in it, that others do
// not. To count them means to compare its states, so that is done only when what was
// counted last and what was written since are together more than the limit.
type usage struct {
	fork    *Workspace
	ready   atomic.Bool // it was counted since there is a limit
	counted atomic.Int64
	since   atomic.Int64
	exports atomic.Int64 // into the store's repository, until the fork ends

	mu   sync.Mutex // one counts at a time
	next time.Time  // before that, what was counted last holds
}

// used is what there is at the most, in bytes.
func (u *usage) used() int64 {
	return u.counted.Load() + u.since.Load() + u.exports.Load()
}

// take takes n bytes, if that is not beyond the limit.
func (u *usage) take(n, limit int64) bool {
	u.since.Add(n)
	if u.used() <= limit && u.ready.Load() {
		return true
	}
	u.since.Add(-n)
	return false
}

// meter counts what forks have of their own, and holds them to a limit.
type meter struct {
	*core
	limit atomic.Int64 // bytes of its own that a fork may have; 0: any number
}

// uppermost is the fork of main in which a fork is, itself perhaps. The lock is held.
func (w *Workspace) uppermost() *Workspace {
	for {
		up := w.store.cat.parent(w)
		if up == nil || !up.fork {
			return w
		}
		w = up
	}
}

// family calls fn for a fork and all forks in it. The lock is held.
func (w *Workspace) family(fn func(*Workspace)) {
	fn(w)
	for _, f := range w.forks {
		f.family(fn)
	}
}

// usageOf returns that of the fork in which a view is, nil for a view that is none's.
func (m *meter) usageOf(view uint32) (u *usage) {
	m.look(func(*live.Tx) {
		if w, ok := m.cat.workspaces[view]; ok && w.fork {
			u = w.uppermost().usage
		}
	})
	return u
}

// admitFork refuses a fork n bytes more than the policy of main allows it. n is 0 for
// a new name.
func (m *meter) admitFork(view uint32, n int64) error {
	limit := m.limit.Load()
	if limit == 0 || view == live.MainView {
		return nil
	}
	u := m.usageOf(view)
	if n == 0 {
		n = createBytes
	}
	if u == nil || u.take(n, limit) {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := m.count(u); err != nil {
		return err
	}
	if u.take(n, limit) {
		return nil
	}
	return errs.New(errs.Quota, "limit reached: a fork may have %d bytes that others do not have, and %s has %d; remove files, and snapshots that have them", limit, u.fork.Name(), u.used())
}

// ChargeExport counts n bytes that an export wrote into the store's repository against
// the limit of a fork, until the fork ends. It does nothing in main.
func (w *Workspace) ChargeExport(n int64) error {
	u := w.store.meter.usageOf(w.view)
	if u == nil || n <= 0 {
		return nil
	}
	if w.store.meter.limit.Load() > 0 {
		if err := w.store.meter.admitFork(w.view, n); err != nil {
			return err
		}
		u.since.Add(-n) // counting what is in files leaves exports alone
	}
	u.exports.Add(n)
	return nil
}

// Usage returns how many bytes of its own a fork has, as they were counted last, with
// what was written since, and how many it may have; 0 when there is no limit.
func (w *Workspace) Usage() (used, limit int64) {
	s := w.store
	if limit = s.meter.limit.Load(); limit == 0 {
		return 0, 0
	}
	u := s.meter.usageOf(w.view)
	if u == nil {
		return 0, 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := s.meter.count(u); err != nil {
		s.logger.Warn("counting what a fork has", "fork", w.Name(), "err", err)
	}
	return u.used(), limit
}

// count counts what a fork has, unless that was done just now. u.mu is held.
func (m *meter) count(u *usage) error {
	start := time.Now()
	if u.ready.Load() && start.Before(u.next) {
		return nil
	}
	chains, since, err := m.chains(u)
	if err != nil {
		return err
	}
	total := int64(0)
	seen := make(map[cas.Hash]int64)
	for _, chain := range chains {
		n, err := m.written(chain, seen)
		if err != nil {
			return err
		}
		total += n
	}
	u.since.Add(-since)
	u.counted.Store(total)
	u.ready.Store(true)
	u.next = time.Now().Add(countShare * time.Since(start))
	return nil
}

// chains are the states of a fork and of each fork in it, from the base to the
// present, and what was written before they were taken.
func (m *meter) chains(u *usage) (chains [][]func() (*tree.State, error), since int64, err error) {
	err = m.forest.Update(true, func(tx *live.Tx) (err error) {
		since = u.since.Load()
		u.fork.family(func(w *Workspace) {
			var chain []func() (*tree.State, error)
			for _, sn := range m.cat.withOrigin(w) {
				chain = append(chain, m.glance(sn))
			}
			st, e := tx.Capture(w.view)
			if e != nil {
				err = e
			}
			chains = append(chains, append(chain, func() (*tree.State, error) { return st, nil }))
		})
		return err
	})
	return chains, since, err
}

// glance returns the way to the state of a snapshot for one look, for which it does
// not stay in memory. The lock is held.
func (m *meter) glance(sn *snap) func() (*tree.State, error) {
	st, id := sn.state.Load(), sn.id
	return func() (*tree.State, error) {
		if st != nil {
			return st, nil
		}
		return tree.Load(m.src, id)
	}
}

// written counts the bytes that each of a chain of states has and the one before has
// not, those in seen only once. A snapshot may be removed meanwhile.
func (m *meter) written(chain []func() (*tree.State, error), seen map[cas.Hash]int64) (total int64, err error) {
	var before *tree.State
	for _, get := range chain {
		st, err := get()
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if before != nil {
			err = func() error {
				defer m.Hold(before)()
				defer m.Hold(st)()
				return tree.Written(context.Background(), m.src, before, st, func(p content.Piece) {
					if p.Key.IsZero() { // an inode
						total += p.Bytes
					} else if more := p.Bytes - seen[p.Key]; more > 0 {
						seen[p.Key] += more
						total += more
					}
				})
			}()
			if err != nil && !isNotFound(err) {
				return 0, err
			}
		}
		before = st
	}
	return total, nil
}
