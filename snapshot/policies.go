package snapshot

import (
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

func (w *Workspace) Policy() (p policy.Policy) {
	w.read(func() { p = w.rec.Policy })
	return p
}

// PatchPolicy changes the policy by a JSON merge patch, and returns what it is then.
func (w *Workspace) PatchPolicy(patch []byte, c actors.Caller) (p policy.Policy, err error) {
	s := w.store
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if w.rec.Policy.Protect && !c.Direct {
			return errs.New(errs.Protected, "protected: the policy cannot be changed through the mount; use `amberfs policy`")
		}
		if p, err = w.rec.Policy.Patch(patch); err != nil {
			return err
		}
		if w.rec.Fork && p.Push != w.rec.Policy.Push {
			return errs.New(errs.Invalid, "malformed request: policy: push can be set for main only")
		}
		return s.commit(tx, recPolicy, &policyRecord{WS: w.rec.View, Policy: p})
	})
	if err == nil {
		s.event(Event{Workspace: w.rec.View, Action: "policy"}, c)
	}
	return p, err
}

type policyRecord struct {
	WS     uint32        `json:"ws"`
	Policy policy.Policy `json:"policy"`
}

func (r *policyRecord) apply(c *entries, _ *live.Tx) error {
	if w, ok := c.workspaces[r.WS]; ok {
		w.rec.Policy = r.Policy
		c.changed(r.WS)
		c.keep.Signal.Up()
		c.refreshLimit()
	}
	return nil
}

// refreshLimit takes the limits of bytes from the policy of main.
func (c *entries) refreshLimit() {
	main := c.workspaces[live.MainView]
	c.room.Limit.Store(main.rec.Policy.ByteLimit)
	if c.meter.limit.Swap(main.rec.Policy.Forks.UnsharedBytes) != 0 {
		return
	}
	for _, w := range c.workspaces {
		w.usage.Reset()
	}
}
