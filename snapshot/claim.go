package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
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

type ClaimOptions struct {
	Label  string // the name of the fork
	From   string // the snapshot that a fresh one starts from; the present state when empty
	TTL    time.Duration
	Caller actors.Caller
}

// A Claimed fork, and how it was found or made.
type Claimed struct {
	Fork *Workspace
	Tier string
	From string // the snapshot that it was made from, if any
}

// Claim returns the one fork of a label: the existing one, else one that begins with what
// the fork left when it ended, else a fresh one. All claims of a label get the same. A TTL
// begins again with each claim.
func (fs Forks) Claim(o ClaimOptions) (Claimed, error) {
	if err := naming.Check(o.Label); err != nil {
		return Claimed{}, err
	}
	fork := ForkOptions{Snapshot: o.From, Name: o.Label, TTL: o.TTL, Caller: o.Caller, claim: o.Label}
	var got Claimed
	start := time.Now()
	s := fs.w.store
	err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		if f, ok := fs.w.ws.Forks[o.Label]; ok {
			got = Claimed{Fork: s.workspaces[f.View], Tier: Resumed}
			if o.TTL <= 0 {
				return nil
			}
			return s.commit(tx, &catalogue.Lease{View: f.View, Expires: s.after(o.TTL)}, o.Caller)
		}
		got.Tier = FreshlyMade
		if last := fs.w.ws.Left(o.Label); last != nil {
			got.Tier, fork.Snapshot = FromLast, last.Name
		}
		got.From = fork.Snapshot
		got.Fork, err = fs.make(tx, fork)
		return err
	})
	if err == nil && got.Tier != Resumed {
		fs.forked(got.Fork, fork, start)
	}
	return got, err
}

// Claimed reports whether a label has a fork, or one that has left its last state.
func (fs Forks) Claimed(label string) (yes bool) {
	fs.w.read(func() { yes = fs.w.ws.Forks[label] != nil || fs.w.ws.Left(label) != nil })
	return yes
}
