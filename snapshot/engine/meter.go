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
	// countTimeDivisor limits the time spent on counting to 1/countTimeDivisor of the whole time.
	countTimeDivisor = 10
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

// AddWorkspace adds a workspace. The caller holds the lock of the forest, as for RemoveWorkspace, ExportedBytes and
// RefreshLimits.
func (m *Meter) AddWorkspace(ws *catalogue.Workspace) {
	f := &forkUse{}
	f.exportedBytes.Store(ws.Exports)
	m.forks[ws.View] = f
}

func (m *Meter) RemoveWorkspace(view uint32) { delete(m.forks, view) }

// ExportedBytes returns the bytes that a workspace has exported into the store's git repository.
func (m *Meter) ExportedBytes(view uint32) int64 { return m.forks[view].exportedBytes.Load() }

// RefreshLimits reads the limits from the policies of all workspaces.
func (m *Meter) RefreshLimits() {
	limit, hasOwnLimit := m.Catalogue.Workspaces.At(live.MainView).Policy.Forks.UnsharedBytes, false
	for _, ws := range m.Catalogue.Workspaces.All() {
		hasOwnLimit = hasOwnLimit || ws.Policy.UnsharedBytes > 0
	}

	m.forkLimit.Store(limit)
	if m.hasLimit.Swap(hasOwnLimit || limit > 0) {
		return
	}
	for _, f := range m.forks {
		f.isCounted.Store(false)
	}
}

// tenantAndLimit returns the fork of main that contains a view, nil for main, and the limit of the fork in bytes,
// 0 for no limit. Without a limit, written bytes are not counted.
func (m *Meter) tenantAndLimit(view uint32) (ws *catalogue.Workspace, f *forkUse, limit int64) {
	m.Forest.WithReadLock(func(*live.Tx) {
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

// Admit charges n bytes to a fork, until the fork is counted again. It returns an errs.Quota if the fork would
// exceed its limit. For a new name n is 0, and NewNameBytes are charged.
func (m *Meter) Admit(view uint32, n int64) error {
	if !m.hasLimit.Load() || view == live.MainView {
		return nil
	}
	ws, f, limit := m.tenantAndLimit(view)
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
	m.Forest.WithReadLock(func(*live.Tx) { name = ws.Name })

	return errs.New(errs.Quota, "limit reached: at most %d unshared bytes, and fork %s has %d; delete files, and snapshots that contain them", limit, name, f.usedBytes())
}

// ChargeExport charges a fork, until the fork ends, for the n bytes that an export will write into the
// store's git repository. A negative n gives bytes back. Errors: errs.Quota, errs.NoSpace. In main it has no
// effect.
func (m *Meter) ChargeExport(view uint32, n int64) error {
	ws, f, limit := m.tenantAndLimit(view)
	if f != nil && n < 0 {
		m.charge(ws, f, n, false)
	}
	if f == nil || n <= 0 {
		return nil
	}
	if free, err := m.Room.FreeBytes(); err == nil && free < n {
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
	m.Forest.WithLock(func(*live.Tx) { m.Catalogue.TouchWorkspace(ws) })
}

// Usage returns an upper bound of the unshared bytes of a fork, and the fork's limit in bytes. Without a
// limit both results are 0.
func (m *Meter) Usage(view uint32) (used, limit int64) {
	ws, f, limit := m.tenantAndLimit(view)
	if f == nil || limit == 0 {
		return 0, 0
	}
	if err := m.count(ws, f); err != nil {
		m.Logger.Warn("counting what a fork has", "view", view, "err", err)
	}

	return f.usedBytes(), limit
}

// count counts the unshared bytes of a fork. For a fork that has ended the count is 0.
func (m *Meter) count(ws *catalogue.Workspace, f *forkUse) error {
	return f.count(m.Source, m.Pins.Hold, func() (chains []stateChain, includedBytes int64) {
		m.Forest.WithLock(func(tx *live.Tx) {
			if includedBytes = f.bytesSinceCount.Load(); ws.CheckAlive() != nil {
				return // the fork has ended
			}

			ws.WalkFamily(func(w *catalogue.Workspace) {
				var states stateChain
				for _, sn := range m.Catalogue.SnapshotsWithBase(w) {
					states = append(states, sn.Root())
				}

				chains = append(chains, append(states, catalogue.Root{State: tx.Freeze(w.View)}))
			})
		})
		return chains, includedBytes
	})
}

// A forkUse contains the unshared bytes of a fork, including the forks in it. A count is expensive, because it
// compares all states of the fork. So the fork is counted only when the result of the last count plus the bytes
// written since then exceeds the limit.
type forkUse struct {
	exportedBytes atomic.Int64 // bytes of exports to the store's git repository, until the fork ends

	isCounted       atomic.Bool  // countedBytes is valid: the fork was counted after the limit was set
	countedBytes    atomic.Int64 // result of the last count
	bytesSinceCount atomic.Int64 // bytes written since the last count

	mu        sync.Mutex // one goroutine counts at a time
	nextCount time.Time  // earliest time of the next count
}

// usedBytes returns an upper bound of the unshared bytes.
func (f *forkUse) usedBytes() int64 {
	return f.countedBytes.Load() + f.bytesSinceCount.Load() + f.exportedBytes.Load()
}

// admit charges n bytes. If they seem to exceed the limit, it counts the fork again. ok is false if they do exceed
// it.
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
	f.bytesSinceCount.Add(n)
	if f.usedBytes() <= limit && f.isCounted.Load() {
		return true
	}
	f.bytesSinceCount.Add(-n)
	return false
}

// charge charges n bytes as an export. reserved is set if reserve has charged them before.
func (f *forkUse) charge(n int64, reserved bool) {
	if reserved {
		f.bytesSinceCount.Add(-n) // the next count resets bytesSinceCount, but not exportedBytes
	}
	f.exportedBytes.Add(n)
}

// A stateChain is the list of states of a fork, from its base to its present state. Its snapshots may be
// removed during the count.
type stateChain []catalogue.Root

// count counts the unshared bytes of a fork. It does nothing before the time nextCount. The function chains returns
// a stateChain for the fork and for each fork in it. It also returns the value of bytesSinceCount when these chains
// are made: these bytes are included in the count. hold protects a state from gc while it is read.
func (f *forkUse) count(src *tree.Source, hold func(*tree.State) (release func()), chains func() ([]stateChain, int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()

	start := time.Now()
	if f.isCounted.Load() && start.Before(f.nextCount) {
		return nil
	}

	all, includedBytes := chains()
	c := differenceCounter{src: src, hold: hold, countedPieceBytes: make(map[cas.Hash]int64)}
	for _, states := range all {
		if err := c.addChain(states); err != nil {
			return err
		}
	}

	f.bytesSinceCount.Add(-includedBytes)
	f.countedBytes.Store(c.totalBytes)
	f.isCounted.Store(true)
	f.nextCount = time.Now().Add(countTimeDivisor * time.Since(start))

	return nil
}

// A differenceCounter adds up the differences between the states of chains.
type differenceCounter struct {
	src               *tree.Source
	hold              func(*tree.State) (release func())
	countedPieceBytes map[cas.Hash]int64 // by content.Piece.Key: bytes of the piece that are counted already
	totalBytes        int64
}

// addChain counts the bytes of each state of a chain that the previous state does not contain. It skips
// states that were removed.
func (c *differenceCounter) addChain(states stateChain) error {
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
func (c *differenceCounter) addDifference(a, b *tree.State) error {
	defer c.hold(a)()
	defer c.hold(b)()
	return tree.EachWrittenPiece(context.Background(), c.src, a, b, func(p content.Piece) {
		if p.Key.IsZero() { // an inode or the memory of extents has no key: all its bytes count, also if it was counted before
			c.totalBytes += p.Bytes
		} else if more := p.Bytes - c.countedPieceBytes[p.Key]; more > 0 {
			c.countedPieceBytes[p.Key] += more
			c.totalBytes += more
		}
	})
}
