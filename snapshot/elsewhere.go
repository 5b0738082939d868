package snapshot

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Elsewhere has objects that the store need not have: those of snapshots that are
// on a remote.
type Elsewhere interface {
	// Any reports whether there is anything elsewhere.
	Any() bool
	// Has reports whether it has an object, and with it all that is below. It may
	// wait for a network.
	Has(h cas.Hash) (bool, error)
	// Get is cas.Store.Get. It may wait, too.
	Get(h cas.Hash, dst []byte) ([]byte, error)
	// Near is Get without waiting: for what is not on this machine it gives a
	// live.Absent error.
	Near(h cas.Hash, dst []byte) ([]byte, error)
}

// Connecting is what Options.Connect is told.
type Connecting struct {
	Disk  vfs.FS
	Dir   string // of the store
	First bool   // nothing is in the store yet
	// Start makes a store in which nothing is yet begin with a snapshot.
	Start func(*Start)
}

func (s opening) connect(first bool) (Elsewhere, error) {
	if s.opt.Connect == nil {
		return nil, nil
	}
	return s.opt.Connect(Connecting{Disk: s.opt.FS, Dir: s.dir, First: first, Start: func(start *Start) { s.start = start }})
}

// objects reads from elsewhere what the store has not. Nothing that is read so is
// put into the store: a cache is not the store's business, and what is sealed here
// on top of it is complete without.
type objects struct {
	*cas.Store
	elsewhere Elsewhere
}

func (o objects) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := o.Store.Get(h, dst)
	if o.elsewhere != nil && isNotFound(err) {
		b, err = o.elsewhere.Get(h, dst)
	}
	if isNotFound(err) {
		o.CheckIndex()
	}
	return b, err
}

// near is objects for whoever holds a lock.
type near struct{ objects }

func (o near) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := o.Store.Get(h, dst)
	if o.elsewhere != nil && isNotFound(err) {
		b, err = o.elsewhere.Near(h, dst)
	}
	if isNotFound(err) {
		o.CheckIndex()
	}
	return b, err
}

// Object appends the bytes of an object to dst[:0], wherever it is. Errors are
// those of cas.Store.Get.
func (s *Store) Object(h cas.Hash, dst []byte) ([]byte, error) { return s.objects.Get(h, dst) }

// onlyElsewhere reports whether nothing of an object, nor of what is below it, is in
// the store. What is sealed here goes into the store with all its parents, so below
// a page that the store has not there is nothing of it.
func (o objects) onlyElsewhere(h cas.Hash) (bool, error) {
	if o.elsewhere == nil {
		return false, nil
	}
	if here, err := o.Has(h); here || err != nil {
		return false, err
	}
	return o.elsewhere.Has(h)
}

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
	st, highest, err := s.pushedState(start.ID)
	if err != nil {
		return nil, err
	}
	tx.SetCounters(highest+1, 0)
	view, err := tx.NewView()
	if err != nil {
		return nil, err
	}
	r := pulled(info, start.ID, st)
	r.View, r.WS, r.Seq = view, w.view, w.nextSeq
	return st, s.cat.applyPull(tx, pullRecord{Snapshot: r, NextIno: highest + 1})
}

// pushedState loads a state that was made elsewhere, and finds the highest number of
// its inodes: what is made here gets others.
func (s *core) pushedState(id cas.Hash) (st *tree.State, highest uint64, err error) {
	if st, err = tree.Load(s.src, id); err == nil {
		highest, err = st.Highest(s.src)
	}
	if err == nil {
		// The pages with the root are stored here, so that mounting needs no network.
		src := tree.NewSource(copied{s.objects}, nil, 1<<20)
		var again *tree.State
		if again, err = tree.Load(src, id); err == nil {
			_, err = again.Get(src, live.RootIno)
		}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("snapshot %s: %w", id, err)
	}
	return st, highest, nil
}

// copied stores the tree pages that are read.
type copied struct{ objects }

func (c copied) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := c.objects.Get(h, dst)
	if err == nil {
		_, err = c.Put(cas.KindTree, b)
	}
	return b, err
}

// pulled is the record of a snapshot that was made elsewhere.
func pulled(i Info, id cas.Hash, st *tree.State) storedSnapshot {
	return storedSnapshot{
		Name: i.Name, Message: i.Message, Labels: i.Labels, Created: i.Created, Kind: KindPull,
		ID: id.String(), Files: st.Inodes - 1, Bytes: st.Bytes,
	}
}

type pullRecord struct {
	Snapshot storedSnapshot `json:"snapshot"`
	NextIno  uint64         `json:"next_ino"`
}

// Pulled makes a snapshot of which all objects are in the store, on disk, or
// elsewhere one of the workspace. Whoever put them holds Importing until it
// returns.
func (rs Remotes) Pulled(i Info, id cas.Hash, c live.Caller) (Info, error) {
	s := rs.w.store
	st, highest, err := s.pushedState(id)
	if err != nil {
		return Info{}, err
	}
	r := pulled(i, id, st)
	r.UID, r.PID = c.UID, c.PID
	err = s.forest.Update(true, func(tx *live.Tx) error {
		if err := rs.mayPull(i); err != nil {
			return err
		}
		var err error
		if r.View, err = tx.NewView(); err != nil {
			return err
		}
		r.WS, r.Seq = rs.w.view, rs.w.nextSeq
		p := pullRecord{r, highest + 1}
		if err := s.journal(tx, recPull, p); err != nil {
			return err
		}
		return s.cat.applyPull(tx, p)
	})
	if err != nil {
		return Info{}, err
	}
	s.event(Event{Workspace: rs.w.view, Action: "pulled", From: i.Name, Caller: c})
	return r.info(), s.Sync()
}

// MayPull returns the error that Pulled would end with for what a snapshot is
// called, before anything of it is brought here.
func (rs Remotes) MayPull(i Info) (err error) {
	rs.w.read(func() { err = rs.mayPull(i) })
	return err
}

// checkPulled refuses what somebody else wrote and no snapshot here can be called.
func checkPulled(i Info) error {
	if err := naming.Check(i.Name); err != nil {
		return err
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
	if _, used := rs.w.byName[i.Name]; used {
		return errs.New(errs.Exist, "there is a snapshot %q already; give it another name with --as", i.Name)
	}
	return nil
}

func (c *catalogue) applyPull(tx *live.Tx, r pullRecord) error {
	tx.UseView(r.Snapshot.View)
	tx.SetCounters(r.NextIno, 0)
	sn, err := r.Snapshot.load()
	if err != nil {
		return err
	}
	c.journalRoots = append(c.journalRoots, journalRoot{id: sn.id})
	c.add(sn)
	return nil
}

// Pushing is a snapshot that is being sent somewhere: sealed, and kept until it is
// released.
type Pushing struct {
	Info    Info
	State   *tree.State
	Release func()
}

// Pushed notes that a snapshot was sent to a remote.
func (rs Remotes) Pushed(name, remote string, c live.Caller) {
	rs.w.store.event(Event{Workspace: rs.w.view, Action: "pushed", From: name, Detail: remote, Caller: c})
}

// CaptureChanged makes a snapshot by itself if something was changed since the last
// one. It reports whether it did.
func (w *Workspace) CaptureChanged() (bool, error) {
	changed := false
	w.store.look(func(tx *live.Tx) { changed = tx.Changed(w.view) != w.at })
	if !changed {
		return false, nil
	}
	_, err := w.Capture(CaptureOptions{Kind: KindAuto})
	return err == nil, err
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
	return &Pushing{info, st, rs.w.store.Hold(st)}, nil
}
