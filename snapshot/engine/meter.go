package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// CreateBytes is charged for a new name until the fork is counted.
	CreateBytes = 576
	// Counting takes at most one part in countShare of the time.
	countShare = 10
)

// A Meter counts what the forks of main have of their own, each with the forks in it, and holds
// them to a limit.
type Meter struct {
	*Parts
	Room *Room

	limited atomic.Bool         // a fork may have a limit
	limit   atomic.Int64        // bytes that each fork may have; 0: any number
	forks   map[uint32]*forkUse // by view; guarded by the lock of the forest
}

func NewMeter(p *Parts, r *Room) *Meter {
	return &Meter{Parts: p, Room: r, forks: make(map[uint32]*forkUse)}
}

// Add adds a workspace. The lock is held, as for Remove, Exports and RefreshLimits.
func (m *Meter) Add(ws *catalogue.Workspace) {
	f := &forkUse{}
	f.exports.Store(ws.Exports)
	m.forks[ws.View] = f
}

func (m *Meter) Remove(view uint32) { delete(m.forks, view) }

// Exports is how many bytes a workspace has in the store's repository.
func (m *Meter) Exports(view uint32) int64 { return m.forks[view].exports.Load() }

// RefreshLimits takes the limit of each fork from the policy of main, and whether forks have
// limits of their own.
func (m *Meter) RefreshLimits() {
	limit, own := m.Catalogue.Workspaces[live.MainView].Policy.Forks.UnsharedBytes, false
	for _, ws := range m.Catalogue.Workspaces {
		own = own || ws.Policy.UnsharedBytes > 0
	}
	m.limit.Store(limit)
	if m.limited.Swap(own || limit > 0) {
		return
	}
	for _, f := range m.forks {
		f.ready.Store(false)
	}
}

// tenant returns the fork of main that a view is in, nil for a view that is in none, and how many
// bytes the fork may have, 0 for any number. What is written without a limit is not counted.
func (m *Meter) tenant(view uint32) (ws *catalogue.Workspace, f *forkUse, limit int64) {
	m.Look(func(*live.Tx) {
		if w, ok := m.Catalogue.Workspaces[view]; ok && w.Fork {
			ws = m.Catalogue.Uppermost(w)
			f = m.forks[ws.View]
			limit = m.limit.Load()
			if own := ws.Policy.UnsharedBytes; own > 0 && (limit == 0 || own < limit) {
				limit = own
			}
		}
	})
	if f != nil && limit == 0 {
		f.ready.Store(false)
	}
	return ws, f, limit
}

// Admit refuses a fork n bytes more than its limit. n is 0 for a new name. They count until what
// the fork has is counted again.
func (m *Meter) Admit(view uint32, n int64) error {
	if !m.limited.Load() || view == live.MainView {
		return nil
	}
	ws, f, limit := m.tenant(view)
	if n == 0 {
		n = CreateBytes
	}
	if f == nil || limit == 0 {
		return nil
	}
	if ok, err := f.admit(n, limit, func() error { return m.count(ws, f) }); ok || err != nil {
		return err
	}
	var name string
	m.Look(func(*live.Tx) { name = ws.Name })
	return errs.New(errs.Quota, "limit reached: at most %d unshared bytes, and fork %s has %d; delete files, and snapshots that contain them", limit, name, f.used())
}

// ChargeExport counts n bytes that an export is going to write into the store's repository
// against the limit of a fork, until the fork ends. A negative n gives bytes back. It does
// nothing in main.
func (m *Meter) ChargeExport(view uint32, n int64) error {
	ws, f, limit := m.tenant(view)
	if f != nil && n < 0 {
		m.charge(ws, f, n, false)
	}
	if f == nil || n <= 0 {
		return nil
	}
	if free, err := m.Room.Free(); err == nil && free < n {
		return errs.NoSpace
	}
	if limit > 0 {
		if err := m.Admit(view, n); err != nil {
			return err
		}
	}
	m.charge(ws, f, n, limit > 0)
	return nil
}

func (m *Meter) charge(ws *catalogue.Workspace, f *forkUse, n int64, taken bool) {
	f.charge(n, taken)
	m.Alter(func(*live.Tx) { m.Catalogue.TouchWorkspace(ws) })
}

// Usage returns how many bytes of its own a fork has, as they were counted last, with
// what was written since, and how many it may have; 0 when there is no limit.
func (m *Meter) Usage(view uint32) (used, limit int64) {
	ws, f, limit := m.tenant(view)
	if f == nil || limit == 0 {
		return 0, 0
	}
	if err := m.count(ws, f); err != nil {
		m.Logger.Warn("counting what a fork has", "view", view, "err", err)
	}
	return f.used(), limit
}

func (m *Meter) count(ws *catalogue.Workspace, f *forkUse) error {
	return f.count(m.Source, m.Pins.Hold, func() (chains []chain, since int64) {
		m.Alter(func(tx *live.Tx) {
			if since = f.since.Load(); ws.Alive() != nil {
				return // it has ended, and has nothing
			}
			ws.Family(func(w *catalogue.Workspace) {
				var of chain
				for _, sn := range m.Catalogue.WithOrigin(w) {
					of = append(of, sn.Root())
				}
				chains = append(chains, append(of, catalogue.Root{State: w.Freeze(tx)}))
			})
		})
		return chains, since
	})
}

// forkUse is how many bytes a fork has, with the forks in it, that others do not. To
// count them means to compare its states, so that is done only when what was counted last
// and what was written since are together more than the limit.
type forkUse struct {
	exports atomic.Int64 // into the store's repository, until the fork ends

	ready   atomic.Bool // it was counted since there is a limit
	counted atomic.Int64
	since   atomic.Int64

	mu   sync.Mutex // one counts at a time
	next time.Time  // before that, what was counted last holds
}

// used is an upper bound, in bytes.
func (f *forkUse) used() int64 { return f.counted.Load() + f.since.Load() + f.exports.Load() }

// admit takes n bytes if that is within the limit, which may need a new count.
func (f *forkUse) admit(n, limit int64, count func() error) (ok bool, err error) {
	if f.take(n, limit) {
		return true, nil
	}
	if err := count(); err != nil {
		return false, err
	}
	return f.take(n, limit), nil
}

func (f *forkUse) take(n, limit int64) bool {
	f.since.Add(n)
	if f.used() <= limit && f.ready.Load() {
		return true
	}
	f.since.Add(-n)
	return false
}

// charge counts n bytes, which were taken, as an export.
func (f *forkUse) charge(n int64, taken bool) {
	if taken {
		f.since.Add(-n) // counting what is in files leaves exports alone
	}
	f.exports.Add(n)
}

// A chain is the states of a fork from the base to the present. Some may be removed
// meanwhile.
type chain []catalogue.Root

// count counts what a fork has, unless that was done just now. chains are those of the fork
// and of each fork in it, with what was written by then; hold keeps a state while it is read.
func (f *forkUse) count(src *tree.Source, hold func(*tree.State) (release func()), chains func() ([]chain, int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	start := time.Now()
	if f.ready.Load() && start.Before(f.next) {
		return nil
	}
	all, since := chains()
	c := counter{src: src, hold: hold, seen: make(map[cas.Hash]int64)}
	for _, of := range all {
		if err := c.written(of); err != nil {
			return err
		}
	}
	f.since.Add(-since)
	f.counted.Store(c.total)
	f.ready.Store(true)
	f.next = time.Now().Add(countShare * time.Since(start))
	return nil
}

type counter struct {
	src   *tree.Source
	hold  func(*tree.State) (release func())
	seen  map[cas.Hash]int64
	total int64
}

// written counts the bytes that each of a chain of states has and the one before has
// not, those in seen only once.
func (c *counter) written(of chain) error {
	var before *tree.State
	for _, r := range of {
		st, err := r.Load(c.src)
		if errors.Is(err, cas.ErrNotFound) {
			continue
		}
		if err == nil && before != nil {
			err = c.between(before, st)
		}
		if err != nil && !errors.Is(err, cas.ErrNotFound) {
			return err
		}
		before = st
	}
	return nil
}

func (c *counter) between(a, b *tree.State) error {
	defer c.hold(a)()
	defer c.hold(b)()
	return tree.Written(context.Background(), c.src, a, b, func(p content.Piece) {
		if p.Key.IsZero() { // an inode
			c.total += p.Bytes
		} else if more := p.Bytes - c.seen[p.Key]; more > 0 {
			c.seen[p.Key] += more
			c.total += more
		}
	})
}
