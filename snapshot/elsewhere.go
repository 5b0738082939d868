package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Connecting is what Options.Connect gets.
type Connecting struct {
	Disk  vfs.FS
	Dir   string // of the store
	First bool   // nothing is in the store yet
}

// Object appends the bytes of an object to dst[:0], wherever it is. Errors are
// those of cas.Store.Get.
func (s *Store) Object(h cas.Hash, dst []byte) ([]byte, error) { return s.objects.Get(h, dst) }

// A Start is the snapshot that a new store begins with, instead of an empty tree.
// Its objects are elsewhere.
type Start struct {
	ID   cas.Hash
	Info Info // its name, message, labels and when it was made
}

// beginWith makes a pushed snapshot the first state of main.
func (s opening) beginWith(tx *live.Tx, start *Start, w *Workspace) (*tree.State, error) {
	info := start.Info
	info.Name = naming.Local(info.Name)
	if err := checkPulled(info); err != nil {
		return nil, err
	}
	st, highest, err := s.objects.Pushed(s.src, start.ID)
	if err != nil {
		return nil, err
	}
	tx.SetCounters(highest+1, 0)
	view, err := tx.NewView()
	if err != nil {
		return nil, err
	}
	r := pulled(info, start.ID, st)
	r.View, r.WS, r.Seq = view, w.rec.View, w.rec.NextSeq
	return st, (&pullRecord{Snapshot: r, NextIno: highest + 1}).apply(s.cat, tx)
}

// pulled is the record of a snapshot that was made elsewhere.
func pulled(i Info, id cas.Hash, st *tree.State) storedSnapshot {
	return storedSnapshot{Info: Info{
		Name: i.Name, Message: i.Message, Labels: i.Labels, Created: i.Created, Kind: KindPull,
		ID: id.String(), Files: st.Inodes - 1, Bytes: st.Bytes,
	}}
}

type pullRecord struct {
	Snapshot storedSnapshot `json:"snapshot"`
	NextIno  uint64         `json:"next_ino"`
	// Of are the views of the snapshots that it was made of.
	Of []uint32 `json:"of,omitempty"`
	// Gone are those of them that go.
	Gone []uint32 `json:"gone,omitempty"`
}

// Pulled makes a snapshot of which all objects are in the store, on disk, or
// elsewhere one of the workspace. The caller that put them holds Importing until it
// returns.
func (rs Remotes) Pulled(i Info, id cas.Hash, c actors.Caller) (Info, error) {
	s := rs.w.store
	st, highest, err := s.objects.Pushed(s.src, id)
	if err != nil {
		return Info{}, err
	}
	r := pulled(i, id, st)
	r.UID, r.PID, r.Actors, r.ActorSets = c.UID, c.PID, i.Actors, i.ActorSets
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := rs.mayPull(i); err != nil {
			return err
		}
		var err error
		if r.View, err = tx.NewView(); err != nil {
			return err
		}
		r.WS, r.Seq = rs.w.rec.View, rs.w.rec.NextSeq
		return s.commit(tx, recPull, &pullRecord{Snapshot: r, NextIno: highest + 1})
	})
	if err != nil {
		return Info{}, err
	}
	s.event(Event{Workspace: rs.w.rec.View, Action: "pulled", From: i.Name}, c)
	return r.Seen(), s.Sync()
}

// MayPull returns the error that Pulled would end with for what a snapshot is
// called, before anything of it is brought here.
func (rs Remotes) MayPull(i Info) (err error) {
	rs.w.read(func() { err = rs.mayPull(i) })
	return err
}

// checkPulled refuses what another party wrote and no snapshot here can be called.
func checkPulled(i Info) error {
	if err := naming.Check(i.Name); err != nil {
		return err
	}
	for _, name := range i.Actors {
		if err := actors.Check(name); err != nil {
			return err
		}
	}
	return naming.CheckDescription(i.Message, i.Labels)
}

func (rs Remotes) mayPull(i Info) error {
	if err := rs.w.alive(); err != nil {
		return err
	}
	if err := checkPulled(i); err != nil {
		return err
	}
	if rs.w.snaps.Named(i.Name) != nil {
		return errs.New(errs.Exist, "snapshot %q exists; give another name with --as", i.Name)
	}
	return nil
}

func (r *pullRecord) apply(c *entries, tx *live.Tx) error {
	tx.UseView(r.Snapshot.View)
	tx.SetCounters(r.NextIno, 0)
	sn, err := r.Snapshot.Load()
	if err != nil {
		return err
	}
	for _, view := range r.Of {
		if of, ok := c.snaps[view]; ok {
			sn.Changes.Take(of.Changes)
		}
	}
	sn.Actors, sn.Compacted = sn.Changes.Names, len(r.Of) > 0
	c.journalRoots = append(c.journalRoots, sn.Root())
	c.add(sn)
	return (&deleteRecord{Views: r.Gone}).apply(c, tx)
}

// Pushing is a snapshot that is being sent somewhere: sealed, and kept until it is
// released.
type Pushing struct {
	Info      Info
	State     *tree.State
	ActorSets []cas.Hash // objects to be sent beside the tree
	Release   func()
}

// Pushed notes that a snapshot was sent to a remote.
func (rs Remotes) Pushed(name, remote string, c actors.Caller) {
	rs.w.store.event(Event{Workspace: rs.w.rec.View, Action: "pushed", From: name, Detail: remote}, c)
}

// Push waits until a snapshot has its id, and keeps it.
func (rs Remotes) Push(ctx context.Context, name string) (*Pushing, error) {
	info, err := rs.w.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return nil, err
	}
	st, err := rs.w.StateOf(info.Name)
	if err != nil {
		return nil, err
	}
	p := &Pushing{Info: info, State: st, Release: rs.w.store.Hold(st)}
	if p.ActorSets, err = rs.w.store.actorSets(info.View); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}
