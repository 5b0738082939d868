package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

const (
	// DefaultMemoryBytes is the default limit for the unsealed changes of all workspaces, in bytes.
	DefaultMemoryBytes = 256 << 20
	// forkPatience is how long a change in a fork waits for memory, and mainPatience in main.
	forkPatience = 30 * time.Second
	mainPatience = 5 * time.Minute
	// maxWaitingForks is the largest number of changes in forks that wait for memory at a time. Each
	// waiting change keeps up to a MiB of a write in memory.
	maxWaitingForks = 32
	// A workspace whose recovery takes heavyBytes of memory or more may be the reason why earlier daemons were
	// killed.
	heavyBytes = 16 << 20
)

// A Memory limits the memory of unsealed changes. Each change is charged to its workspace. The
// tenant of a workspace is main, or the fork of main that contains it. When a tenant uses half of
// its share, its workspaces are sealed, which gives memory back. A recovery charges the same
// amounts, and seals all workspaces when the memory is nearly full. So opening a store never needs
// more memory than the limit.
type Memory struct {
	*Parts
	Sealer   *Sealer
	ReadOnly bool // states cannot be sealed

	account        *budget.Account
	halfLimitBytes int64
	recoveryEnded  atomic.Bool // see EndRecovery

	mu             sync.Mutex
	views          map[uint32]*memoryUse
	sealingTenants map[uint32]bool // by tenant: its workspaces are being sealed
	waitingForks   int             // number of changes in forks that wait
	replayBytes    int64           // bytes charged since the last checkpoint
}

// A memoryUse counts the bytes that were charged to a view, and how many of them were returned.
type memoryUse struct {
	tenant, parent              uint32 // views
	chargedBytes, returnedBytes int64
}

// NewMemory returns a Memory with a limit of size bytes.
func NewMemory(p *Parts, z *Sealer, size int64) *Memory {
	return &Memory{
		Parts: p, Sealer: z, account: budget.NewAccount(size, live.MainView), halfLimitBytes: size / 2,
		views: make(map[uint32]*memoryUse), sealingTenants: make(map[uint32]bool),
	}
}

// UsedBytes returns the number of bytes that all workspaces use.
func (m *Memory) UsedBytes() int64 { return m.account.Used() }

// PeakUsedBytes returns the largest value of UsedBytes since the store was opened.
func (m *Memory) PeakUsedBytes() int64 { return m.account.Peak() }

// AddWorkspace adds a workspace. The caller holds the lock of the forest, as for RemoveWorkspace.
func (m *Memory) AddWorkspace(ws *catalogue.Workspace) {
	c := &memoryUse{tenant: m.Catalogue.UppermostFork(ws).View}
	if up := m.Catalogue.Parent(ws); up != nil {
		c.parent = up.View
	}

	m.mu.Lock()
	defer m.mu.Unlock()

	m.views[ws.View] = c
}

// RemoveWorkspace removes a workspace. Its unsealed bytes are charged to its parent, because a snapshot of
// the parent may contain the workspace's last state.
func (m *Memory) RemoveWorkspace(view uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()

	c := m.views[view]
	if c == nil {
		return
	}

	delete(m.views, view)
	left := c.chargedBytes - c.returnedBytes
	m.account.Release(c.tenant, left)

	if up := m.views[c.parent]; up != nil {
		up.chargedBytes += left
		m.account.Add(up.tenant, left)
	}
}

// Take implements live.Memory.
func (m *Memory) Take(view uint32, usedBytes, moreBytes int64, urgent bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()

	c := m.views[view]
	if c == nil {
		return true // the view is not added yet
	}

	m.account.Add(c.tenant, usedBytes)
	c.chargedBytes += usedBytes
	m.replayBytes += usedBytes
	fits := m.account.Take(c.tenant, moreBytes, urgent)
	if fits {
		c.chargedBytes += moreBytes
		m.replayBytes += moreBytes
	}

	if !fits || m.account.OverHalf(c.tenant) {
		m.sealSoonLocked(c.tenant)
	}

	return fits
}

// Await implements live.Memory.
func (m *Memory) Await(ctx context.Context, view uint32, moreBytes int64, urgent bool) error {
	patience := mainPatience
	m.mu.Lock()
	c := m.views[view]
	if c == nil {
		m.mu.Unlock()
		return nil
	}

	if c.tenant != live.MainView {
		if patience = forkPatience; m.waitingForks >= maxWaitingForks {
			m.mu.Unlock()
			return errFullMemory
		}

		m.waitingForks++
		defer func() {
			m.mu.Lock()
			m.waitingForks--
			m.mu.Unlock()
		}()
	}

	m.mu.Unlock()

	patient, stop := context.WithTimeout(ctx, patience)
	defer stop()
	defer context.AfterFunc(m.Loops.Context, stop)()

	for freed := m.account.Freed(); !m.account.Fits(c.tenant, moreBytes, urgent); freed = m.account.Freed() {
		m.mu.Lock()
		m.sealSoonLocked(c.tenant)
		m.mu.Unlock()

		select {
		case <-freed:
		case <-patient.Done():
			return cmp.Or(ctx.Err(), error(errFullMemory))
		}
	}

	return nil
}

var errFullMemory = errs.New(errs.Quota, "limit reached: the changes of this workspace that are not stored yet take all memory that it may have; try again in a while")

// ErrReplayMemory is the error of opening a store read-only if the changes in its journal take too much
// memory. Sealing them would free memory, but would write to the store.
var ErrReplayMemory = errs.New(errs.Quota, "limit reached: what the journal contains takes more memory than there is for it")

// sealSoonLocked starts a goroutine that seals the workspaces of a tenant, unless one is running.
// The caller holds mu.
func (m *Memory) sealSoonLocked(tenant uint32) {
	if m.sealingTenants[tenant] || !m.recoveryEnded.Load() {
		return
	}
	m.sealingTenants[tenant] = true
	m.Loops.Go("sealing what takes much memory", func() {
		defer func() {
			m.mu.Lock()
			delete(m.sealingTenants, tenant)
			m.mu.Unlock()
			m.account.Wake()
		}()
		defer m.Sealer.Pacer.BeginUrgent()()
		if err := m.sealTenant(m.Loops.Context, tenant); err != nil && m.Loops.Context.Err() == nil {
			m.Logger.Warn("changes that take much memory cannot be sealed", "err", err, guard.Stack(err))
			m.Loops.Pause(sealRetryDelay)
		}
	})
}

// sealTenant seals the workspaces of a tenant until they use less than half of its share.
func (m *Memory) sealTenant(ctx context.Context, tenant uint32) error {
	for first := true; first || m.account.OverHalf(tenant); first = false {
		if err := m.sealChosen(ctx, func(c *memoryUse) bool { return c.tenant == tenant }); err != nil {
			return err
		}
	}
	return nil
}

// sealChosen seals the chosen workspaces, the workspace with the most memory first.
func (m *Memory) sealChosen(ctx context.Context, chosen func(*memoryUse) bool) error {
	m.mu.Lock()
	var views []uint32
	usage := make(map[uint32]int64)
	for view, c := range m.views {
		if usage[view] = c.chargedBytes - c.returnedBytes; usage[view] > 0 && chosen(c) {
			views = append(views, view)
		}
	}

	m.mu.Unlock()

	slices.SortFunc(views, func(a, b uint32) int { return cmp.Compare(usage[b], usage[a]) })
	var failed error
	for _, view := range views {
		failed = errors.Join(failed, m.sealView(ctx, view))
	}

	return failed
}

// sealView seals the present state, the orphans and the unsealed snapshots of a workspace, and gives
// back the memory that was charged for them.
func (m *Memory) sealView(ctx context.Context, view uint32) error {
	var states []*tree.State
	var snaps []*catalogue.Snapshot
	var mark int64
	var releases []func()
	defer func() {
		for _, release := range releases {
			release()
		}
	}()

	err := m.Forest.Update(true, func(tx *live.Tx) error {
		w := m.Catalogue.Workspaces.At(view)
		if w == nil {
			return nil
		}

		orphans, err := tx.Orphans([]uint32{view})
		if err != nil {
			return err
		}

		for _, sn := range m.Catalogue.Unsealed.All() {
			if sn.WS == view {
				snaps = append(snaps, sn)
			}
		}

		states, mark = append(states, tx.Freeze(w.View)), m.ChargedBytes(view)
		if st := orphans[view]; st != nil {
			states = append(states, st)
		}
		for _, st := range states {
			releases = append(releases, m.Pins.Hold(st))
		}

		return nil
	})
	if err != nil {
		return err
	}

	slices.SortFunc(snaps, func(a, b *catalogue.Snapshot) int { return cmp.Compare(a.Seq, b.Seq) })

	for _, sn := range snaps {
		if err := m.Sealer.EnsureSealed(ctx, sn); err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			m.Logger.Warn("sealing", "err", err, guard.Stack(err))
		}
	}

	for _, st := range states {
		_, err := m.Sealer.SealInTurn(ctx, view, st)
		if err != nil && ctx.Err() == nil {
			_, _, err = m.Sealer.SealPartly(ctx, view, st) // files that cannot be sealed stay in memory
		}
		if err != nil {
			return err
		}
	}

	m.ReturnSealed(view, mark)

	return nil
}

// BytesToReplay returns the bytes charged since the last checkpoint, which a recovery would charge again.
func (m *Memory) BytesToReplay() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.replayBytes
}

// SubtractBytesToReplay subtracts bytes from BytesToReplay, after a checkpoint.
func (m *Memory) SubtractBytesToReplay(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replayBytes -= bytes
}

// ReplayNeedsMuchMemory reports whether a recovery would charge more than half of the memory.
func (m *Memory) ReplayNeedsMuchMemory() bool {
	return m != nil && m.BytesToReplay() > m.halfLimitBytes
}

// HeaviestWorkspace returns the view of the workspace with the most charged bytes. found is false if no
// workspace was charged at least heavyBytes.
func (m *Memory) HeaviestWorkspace() (view uint32, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()

	most := int64(heavyBytes)
	for id, c := range m.views {
		if c.chargedBytes >= most {
			view, most, found = id, c.chargedBytes, true
		}
	}

	return view, found
}

// ChargedBytes returns the sum of all bytes that were charged to a view, for a later call of ReturnSealed.
func (m *Memory) ChargedBytes(view uint32) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.views[view]; c != nil {
		return c.chargedBytes
	}
	return 0
}

// ReturnSealed gives back the bytes that were charged before an earlier call of ChargedBytes, whose result is mark.
// The caller has sealed the state that the workspace had then, with its orphans and snapshots.
func (m *Memory) ReturnSealed(view uint32, mark int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.views[view]; c != nil && mark > c.returnedBytes {
		m.account.Release(c.tenant, mark-c.returnedBytes)
		c.returnedBytes = mark
	}
}

// EndRecovery ends the recovery. After it, workspaces are sealed in the background.
func (m *Memory) EndRecovery() { m.recoveryEnded.Store(true) }

// SealIfNearlyFull implements live.Memory.
func (m *Memory) SealIfNearlyFull() error {
	if !m.account.NearlyFull() {
		return nil
	}
	if m.ReadOnly {
		return ErrReplayMemory
	}
	return m.sealChosen(m.Loops.Context, func(*memoryUse) bool { return true })
}

// SealEdit implements live.Memory.
func (m *Memory) SealEdit(view uint32, st *tree.State, bytes int64) (sealed bool, err error) {
	if bytes < m.halfLimitBytes {
		return false, nil
	}
	if m.ReadOnly {
		return false, ErrReplayMemory
	}
	for err = content.ErrTurnOver; errors.Is(err, content.ErrTurnOver); {
		_, _, err = m.Sealer.sealState(m.Loops.Context, view, st)
	}

	return err == nil, err
}
