package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// How a claim was met.
const (
	Resumed     = "resumed"  // the fork exists
	FromLast    = "snapshot" // from what it left when it ended
	FreshlyMade = "fresh"
)

// A Claimed fork, and how it was found or made.
type Claimed struct {
	Fork *Workspace
	Tier string
	From string // the snapshot that it was made from, if any
}

// Claim returns the one fork of a label, which is its name: the existing one, else one that begins
// with what the fork left when it ended, else a fresh one. All claims of a label get the same. A TTL
// begins again with each claim.
func (fs Forks) Claim(o ForkOptions) (Claimed, error) {
	if err := naming.Check(o.Name); err != nil {
		return Claimed{}, err
	}
	o.claim = o.Name
	var got Claimed
	start := time.Now()
	s := fs.w.store
	err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		if f, ok := fs.w.ws.Forks[o.Name]; ok {
			got = Claimed{Fork: s.workspaces[f.View], Tier: Resumed}
			if o.TTL <= 0 {
				return nil
			}
			return s.commit(tx, &catalogue.Lease{View: f.View, Expires: s.after(o.TTL)}, o.Caller)
		}
		got.Tier = FreshlyMade
		if last := fs.w.ws.Left(o.Name); last != nil {
			got.Tier, o.Snapshot = FromLast, last.Name
		}
		got.From = o.Snapshot
		got.Fork, err = fs.make(tx, o)
		return err
	})
	if err == nil && got.Tier != Resumed {
		fs.forked(got.Fork, o, start)
	}
	return got, err
}

// Claimed reports whether a label has a fork, or one that has left its last state.
func (fs Forks) Claimed(label string) (yes bool) {
	fs.w.read(func() { yes = fs.w.ws.Forks[label] != nil || fs.w.ws.Left(label) != nil })
	return yes
}
