package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Values of ClaimResult.Tier.
const (
	TierResumed  = "resumed"  // the fork existed already
	TierSnapshot = "snapshot" // the fork was made from the last state of an ended fork with the label
	TierFresh    = "fresh"    // the fork was made from ForkOptions.Snapshot, or from the present state
	TierNewer    = "newer"    // the fork was made from a state on a remote, newer than the last state in this store
)

// A ClaimResult is a claimed fork, and how it was found or made.
type ClaimResult struct {
	Fork *Workspace
	Tier string
	From string // the snapshot that the fork was made from, "" if it was resumed or made from a present state
}

// Claim returns the fork whose name is the label. If it does not exist, Claim makes it. The new fork begins with
// the last state of the ended fork with the label, if that state is still a snapshot and ForkOptions.Newer is not
// set. Concurrent claims of a label return the same fork. Each claim restarts the TTL.
func (fs Forks) Claim(o ForkOptions) (ClaimResult, error) {
	p, err := fs.checkOptions(o)
	if err != nil {
		return ClaimResult{}, err
	}

	p.claim = o.Name

	if from, resumed := fs.claimStart(o); !resumed {
		defer p.release()
		if err := fs.makeHiddenStates(&p, from); err != nil {
			return ClaimResult{}, err
		}
	}

	var got ClaimResult
	s, start := fs.w.store, time.Now()
	err = s.forest.Update(true, func(tx *live.Tx) (err error) {
		if f, err := fs.w.ws.ForkNamed(o.Name); err == nil {
			got = ClaimResult{Fork: s.workspaces.byView[f.View], Tier: TierResumed}
			if p.expires == nil {
				return nil
			}
			return s.applier(tx).commit(&catalogue.Lease{View: f.View, Expires: p.expires}, o.Caller)
		}

		got.Tier = TierFresh
		if last := fs.w.ws.LastStateOfClaim(o.Name); last != nil && !o.Newer {
			got.Tier, p.Snapshot = TierSnapshot, last.Name
		}

		got.From = p.Snapshot
		got.Fork, err = fs.makeFork(tx, p)
		return err
	})
	if err != nil {
		return got, err
	}
	if got.Tier != TierResumed {
		fs.reportFork(got.Fork, o, start)
	}

	return got, nil
}

// claimStart returns the snapshot from which a claim makes a fork. resumed is set if the fork exists already.
func (fs Forks) claimStart(o ForkOptions) (from string, resumed bool) {
	defer fs.w.store.forest.ReadLock()()
	_, err := fs.w.ws.ForkNamed(o.Name)
	if last := fs.w.ws.LastStateOfClaim(o.Name); last != nil && !o.Newer {
		return last.Name, err == nil
	}
	return o.Snapshot, err == nil
}

// LastState returns the snapshot of the last state of the ended fork with a label. ok is false if there is no such
// snapshot.
func (fs Forks) LastState(label string) (i info.Info, ok bool) {
	defer fs.w.store.forest.ReadLock()()
	if sn := fs.w.ws.LastStateOfClaim(label); sn != nil {
		return sn.Info, true
	}
	return i, false
}

// HasLabel reports whether a fork with the label exists, or ended with a snapshot of its last state.
func (fs Forks) HasLabel(label string) bool {
	defer fs.w.store.forest.ReadLock()()
	_, err := fs.w.ws.ForkNamed(label)
	return err == nil || fs.w.ws.LastStateOfClaim(label) != nil
}
