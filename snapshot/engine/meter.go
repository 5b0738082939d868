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
	// NewNameBytes is charged for a new name until the bytes of the fork are counted.
	NewNameBytes = 576
	// countShare limits the counting to 1/countShare of the time.
	countShare = 10
)

// A Meter counts the unshared bytes of each fork of main, including the forks in it, and enforces
// the limits of policies. Unshared bytes are bytes that nothing outside the fork uses.
type Meter struct {
	*Parts
	Room *Room

	hasLimit  atomic.Bool         // the policies have a limit
	forkLimit atomic.Int64        // unshared bytes that each fork may have; 0: no limit
	forks     map[uint32]*forkUse // by view; guarded by the lock of the forest
}

func NewMeter(p *Parts, r *Room) *Meter {
	return &Meter{Parts: p, Room: r, forks: make(map[uint32]*forkUse)}
}

// Add adds a workspace. The caller holds the lock of the forest, as for Remove, Exports and
// RefreshLimits.
func (m *Meter) Add(ws *catalogue.Workspace) {
	f := &forkUse{}
	f.exports.Store(ws.Exports)
	m.forks[ws.View] = f
}

func (m *Meter) Remove(view uint32) { delete(m.forks, view) }

// Exports returns the bytes that a workspace has exported into the store's git repository.
func (m *Meter) Exports(view uint32) int64 { return m.forks[view].exports.Load() }

// RefreshLimits reads the limits from the policies of all workspaces.
func (m *Meter) RefreshLimits() {
	limit, own := m.Catalogue.Workspaces.At(live.MainView).Policy.Forks.UnsharedBytes, false
	for _, ws := range m.Catalogue.Workspaces.All() {
		own = own || ws.Policy.UnsharedBytes > 0
	}

	m.forkLimit.Store(limit)
	if m.hasLimit.Swap(own || limit > 0) {
		return
	}
	for _, f := range m.forks {
		f.isCounted.Store(false)
	}
}

// tenant returns the fork of main that contains a view, nil for main, and the limit of the fork in bytes,
// 0 for no limit. Without a limit, written bytes are not counted.
func (m *Meter) tenant(view uint32) (ws *catalogue.Workspace, f *forkUse, limit int64) {
	m.WithReadLock(func(*live.Tx) {
		if w := m.Catalogue.Workspaces.At(view); w != nil && w.Fork {
			ws = m.Catalogue.UppermostFork(w)
			f = m.forks[ws.View]
			limit = m.forkLimit.Load()
			if own := ws.Policy.UnsharedBytes; own > 0 && (limit == 0 || own < limit) {
				limit = own
			}
		}
	})
	if f != nil && limit == 0 {
		f.isCounted.Store(false)
	}

	return ws, f, limit
}

// Admit charges n bytes to a fork, until the fork is counted again. It returns an errs.Quota if
// they exceed the limit. For a new name n is 0, and NewNameBytes are charged.
func (m *Meter) Admit(view uint32, n int64) error {
	if !m.hasLimit.Load() || view == live.MainView {
		return nil
	}
	ws, f, limit := m.tenant(view)
	if n == 0 {
		n = NewNameBytes
	}
	if f == nil || limit == 0 {
		return nil
	}
	if ok, err := f.admit(n, limit, func() error { return m.count(ws, f) }); ok || err != nil {
		return err
	}

	var name string
	m.WithReadLock(func(*live.Tx) { name = ws.Name })

	return errs.New(errs.Quota, "limit reached: at most %d unshared bytes, and fork %s has %d; delete files, and snapshots that contain them", limit, name, f.used())
}

// ChargeExport charges a fork, until the fork ends, for the n bytes that an export will write into the
// store's git repository. A negative n gives bytes back. Errors: errs.Quota, errs.NoSpace. In main it has no
// effect.
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

func (m *Meter) charge(ws *catalogue.Workspace, f *forkUse, n int64, reserved bool) {
	f.charge(n, reserved)
	m.WithLock(func(*live.Tx) { m.Catalogue.TouchWorkspace(ws) })
}

// Usage returns an upper bound of the unshared bytes of a fork, and the fork's limit in bytes. Without a
// limit both results are 0.
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

// count counts the unshared bytes of a fork: 0 if the fork has ended.
func (m *Meter) count(ws *catalogue.Workspace, f *forkUse) error {
	return f.count(m.Source, m.Pins.Hold, func() (chains []stateChain, since int64) {
		m.WithLock(func(tx *live.Tx) {
			if since = f.bytesSince.Load(); ws.CheckAlive() != nil {
				return // the fork has ended
			}

			ws.WalkFamily(func(w *catalogue.Workspace) {
				var states stateChain
				for _, sn := range m.Catalogue.SnapshotsWithBase(w) {
					states = append(states, sn.Root())
				}

				chains = append(chains, append(states, catalogue.Root{State: w.Freeze(tx)}))
			})
		})
		return chains, since
	})
}

// A forkUse contains the unshared bytes of a fork, including the forks in it. A count is expensive, because it
// compares all states of the fork. So the fork is counted only when the result of the last count plus the bytes
// written since then exceeds the limit.
type forkUse struct {
	exports atomic.Int64 // bytes of exports to the store's git repository, until the fork ends

	isCounted    atomic.Bool  // countedBytes is valid: the fork was counted since the limit was set
	countedBytes atomic.Int64 // result of the last count
	bytesSince   atomic.Int64 // bytes written since the last count

	mu        sync.Mutex // one goroutine counts at a time
	nextCount time.Time  // earliest time of the next count
}

// used returns an upper bound of the unshared bytes.
func (f *forkUse) used() int64 { return f.countedBytes.Load() + f.bytesSince.Load() + f.exports.Load() }

// admit charges n bytes and counts again if needed. ok is false if they exceed the limit.
func (f *forkUse) admit(n, limit int64, count func() error) (ok bool, err error) {
	if f.reserve(n, limit) {
		return true, nil
	}
	if err := count(); err != nil {
		return false, err
	}

	return f.reserve(n, limit), nil
}

// reserve charges n bytes. It returns false and charges no bytes if they exceed the limit or the fork
// was not counted yet.
func (f *forkUse) reserve(n, limit int64) bool {
	f.bytesSince.Add(n)
	if f.used() <= limit && f.isCounted.Load() {
		return true
	}
	f.bytesSince.Add(-n)
	return false
}

// charge charges n bytes as an export. reserved is set if reserve has charged them before.
func (f *forkUse) charge(n int64, reserved bool) {
	if reserved {
		f.bytesSince.Add(-n) // the next count resets bytesSince, but not exports
	}
	f.exports.Add(n)
}

// A stateChain is the list of states of a fork, from its base to its present state. Its snapshots may be
// removed during the count.
type stateChain []catalogue.Root

// count counts the unshared bytes of a fork. Before the time nextCount it keeps the result of the last
// count. The function chains returns a stateChain for the fork and for each fork in it, and the value that
// forkUse.bytesSince has when these chains are made. hold protects a state from gc while it is read.
func (f *forkUse) count(src *tree.Source, hold func(*tree.State) (release func()), chains func() ([]stateChain, int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	start := time.Now()
	if f.isCounted.Load() && start.Before(f.nextCount) {
		return nil
	}

	all, since := chains()
	c := counter{src: src, hold: hold, countedPieces: make(map[cas.Hash]int64)}
	for _, states := range all {
		if err := c.addChain(states); err != nil {
			return err
		}
	}

	f.bytesSince.Add(-since)
	f.countedBytes.Store(c.total)
	f.isCounted.Store(true)
	f.nextCount = time.Now().Add(countShare * time.Since(start))

	return nil
}

// A counter adds up the differences between the states of chains.
type counter struct {
	src           *tree.Source
	hold          func(*tree.State) (release func())
	countedPieces map[cas.Hash]int64 // by content.Piece.Key: bytes of the piece that are counted already
	total         int64
}

// addChain counts the bytes of each state of a chain that the previous state does not contain. It skips
// states that were removed.
func (c *counter) addChain(states stateChain) error {
	var before *tree.State
	for _, r := range states {
		st, err := r.Load(c.src)
		if errors.Is(err, cas.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}

		if before != nil {
			if err := c.addDifference(before, st); err != nil && !errors.Is(err, cas.ErrNotFound) {
				return err
			}
		}

		before = st
	}

	return nil
}

// addDifference counts the bytes of b that are not in a.
func (c *counter) addDifference(a, b *tree.State) error {
	defer c.hold(a)()
	defer c.hold(b)()
	return tree.EachWrittenPiece(context.Background(), c.src, a, b, func(p content.Piece) {
		if p.Key.IsZero() { // an inode
			c.total += p.Bytes
		} else if more := p.Bytes - c.countedPieces[p.Key]; more > 0 {
			c.countedPieces[p.Key] += more
			c.total += more
		}
	})
}
