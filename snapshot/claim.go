package snapshot

import (
	"time"

	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// How a claim was met.
const (
	Resumed     = "resumed"  // the fork exists
	FromLast    = "snapshot" // from what it left when it ended
	FreshlyMade = "fresh"
	Newer       = "newer" // from a state on a remote that continues the one here
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
	p, err := fs.plan(o)
	if err != nil {
		return Claimed{}, err
	}
	p.claim = o.Name

	var got Claimed
	s, start := fs.w.store, time.Now()
	err = s.forest.Update(true, func(tx *live.Tx) (err error) {
		if f, ok := fs.w.ws.Forks[o.Name]; ok {
			got = Claimed{Fork: s.workspaces[f.View], Tier: Resumed}
			if p.expires == nil {
				return nil
			}
			return s.commit(tx, &catalogue.Lease{View: f.View, Expires: p.expires}, o.Caller)
		}
		got.Tier = FreshlyMade
		if last := fs.w.ws.Left(o.Name); last != nil && !o.Newer {
			got.Tier, p.Snapshot = FromLast, last.Name
		}
		got.From = p.Snapshot
		got.Fork, err = fs.make(tx, p)
		return err
	})
	if err == nil && got.Tier != Resumed {
		fs.forked(got.Fork, o, start)
	}
	return got, err
}

// Left describes the last state that the fork of a label left; ok is false if there is none.
func (fs Forks) Left(label string) (i info.Info, ok bool) {
	fs.w.read(func() {
		if sn := fs.w.ws.Left(label); sn != nil {
			i, ok = sn.Info, true
		}
	})
	return i, ok
}

// Lineage returns the ids of the states that the workspace began with and was in.
func (w *Workspace) Lineage() (ids []string) {
	w.read(func() { ids = w.store.cat.Lineage(w.ws, 0) })
	return ids
}

// NewestOf returns the name of the newest snapshot with one of some ids, or "base"; "" if there is none.
func (w *Workspace) NewestOf(ids []string) (name string) {
	w.read(func() { name = w.store.cat.Newest(w.ws, ids) })
	return name
}

// Claimed reports whether a label has a fork, or one that has left its last state.
func (fs Forks) Claimed(label string) (yes bool) {
	fs.w.read(func() { yes = fs.w.ws.Forks[label] != nil || fs.w.ws.Left(label) != nil })
	return yes
}
