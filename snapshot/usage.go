package snapshot

import (
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/usage"
)

// meter counts what forks have of their own, and holds them to a limit.
type meter struct {
	*core
	limit atomic.Int64 // bytes of its own that a fork may have; 0: any number
}

// Tenant is the workspace whose limits count: main or a fork of main.
func (w *Workspace) Tenant() (t *Workspace) {
	w.read(func() { t = w.uppermost() })
	return t
}

// uppermost is the fork of main in which a fork is, or the workspace itself. The lock is held.
func (w *Workspace) uppermost() *Workspace {
	ws := w.store.cat.Uppermost(w.ws)
	if up := w.store.workspaces[ws.View]; up != nil && up.ws == ws {
		return up
	}
	return w // it has ended
}

// tenant returns the fork of main that a view is in, nil for a view that is in none.
func (s *core) tenant(view uint32) (f *Workspace) {
	s.look(func(*live.Tx) {
		if w, ok := s.workspaces[view]; ok && w.ws.Fork {
			f = w.uppermost()
		}
	})
	return f
}

// admitFork refuses a fork n bytes more than the policy of main allows it. n is 0 for
// a new name.
func (m *meter) admitFork(view uint32, n int64) error {
	limit := m.limit.Load()
	if limit == 0 || view == live.MainView {
		return nil
	}
	f := m.tenant(view)
	if n == 0 {
		n = usage.CreateBytes
	}
	if f == nil {
		return nil
	}
	if ok, err := f.usage.Take(n, limit, func() error { return m.count(f) }); ok || err != nil {
		return err
	}
	return errs.New(errs.Quota, "limit reached: at most %d unshared bytes, and fork %s has %d; delete files, and snapshots that contain them", limit, f.Name(), f.usage.Used())
}

// Admit refuses n bytes that there is no room for, or that are more than a fork may have. They
// count until what the fork has is counted again.
func (w *Workspace) Admit(n int64) error {
	if err := w.store.meter.admitFork(w.ws.View, n); err != nil {
		return err
	}
	return w.store.room.Admit(n)
}

// ChargeExport counts n bytes that an export is going to write into the store's repository
// against the limit of a fork, until the fork ends. A negative n gives bytes back. It does
// nothing in main.
func (w *Workspace) ChargeExport(n int64) error {
	m := &w.store.meter
	f := m.tenant(w.ws.View)
	if f != nil && n < 0 {
		f.usage.Charge(n, false)
	}
	if f == nil || n <= 0 {
		return nil
	}
	if free, err := w.store.room.Free(); err == nil && free < n {
		return errs.NoSpace
	}
	limited := m.limit.Load() > 0
	if limited {
		if err := m.admitFork(w.ws.View, n); err != nil {
			return err
		}
	}
	f.usage.Charge(n, limited)
	return nil
}

// Usage returns how many bytes of its own a fork has, as they were counted last, with
// what was written since, and how many it may have; 0 when there is no limit.
func (w *Workspace) Usage() (used, limit int64) {
	m := &w.store.meter
	f := m.tenant(w.ws.View)
	if limit = m.limit.Load(); limit == 0 || f == nil {
		return 0, 0
	}
	if err := m.count(f); err != nil {
		m.logger.Warn("counting what a fork has", "fork", w.Name(), "err", err)
	}
	return f.usage.Used(), limit
}

func (m *meter) count(f *Workspace) error {
	return f.usage.Count(m.src, m.Hold, func() (chains []usage.Chain, since int64) {
		m.alter(func(tx *live.Tx) {
			if since = f.usage.Since(); f.ws.Alive() != nil {
				return // it has ended, and has nothing
			}
			f.ws.Family(func(w *catalogue.Workspace) {
				var chain usage.Chain
				for _, sn := range m.cat.WithOrigin(w) {
					chain = append(chain, sn.Root())
				}
				chains = append(chains, append(chain, catalogue.Root{State: w.Freeze(tx)}))
			})
		})
		return chains, since
	})
}
