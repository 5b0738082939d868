package snapshot

import (
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

func (w *Workspace) Policy() (p policy.Policy) {
	w.withReadLock(func() { p = w.ws.Policy })
	return p
}

// PatchPolicy changes the policy by a JSON merge patch, and returns the new policy.
func (w *Workspace) PatchPolicy(patch []byte, c actors.Caller) (p policy.Policy, err error) {
	s := w.store
	if err := s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		r, err := w.ws.NewSetPolicy(patch, c)
		if err != nil {
			return nil, err
		}

		p = r.Policy
		return r, r.Describe(w.ws, w.Ops().newOp(catalogue.OpPolicy, "", c))
	}); err != nil {
		return p, err
	}

	s.Hooks.emit(events.Event{Workspace: w.ws.View, Action: "policy"}, c)

	return p, nil
}

// refreshLimits reads the byte limits of store and forks from the policies again.
func (p *applyParts) refreshLimits() {
	p.room.SizeLimit.Store(p.parts.Catalogue.Workspaces.At(live.MainView).Policy.ByteLimit)
	p.meter.RefreshLimits()
}
