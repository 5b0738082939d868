package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type CaptureOptions struct {
	Name    string // cp-<seq> when empty
	Message string
	Labels  map[string]string
	Expires *time.Time
	Pinned  bool
	Kind    string // KindManual when empty
	// IfChanged makes no snapshot when nothing differs from the newest one:
	// that is returned, with ErrUnchanged.
	IfChanged bool
	Caller    actors.Caller
	// Image was imported just before.
	Image *Image
}

// Capture makes a snapshot of the present state. It takes the same time
// whatever the size of the tree.
func (w *Workspace) Capture(o CaptureOptions) (Info, error) {
	if o.Name != "" {
		if err := naming.Check(o.Name); err != nil {
			return Info{}, err
		}
	}
	if err := naming.CheckDescription(o.Message, o.Labels); err != nil {
		return Info{}, err
	}
	start := time.Now()
	if o.Kind == "" {
		o.Kind = KindManual
	}
	s := w.store
	if o.IfChanged {
		if newest, err := w.Snapshots().unchanged(); err != nil {
			return newest, err
		}
	}
	var made Info
	err := s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if w.snaps.Named(o.Name) != nil {
			return errs.New(errs.Exist, "name in use: snapshot %q exists; choose another name, or delete it first", o.Name)
		}
		if err := w.Snapshots().admitCapture(o.Kind); err != nil {
			return err
		}
		r, err := w.Snapshots().newSnapshot(tx, o)
		if err != nil {
			return err
		}
		made = r.Seen()
		return s.commit(tx, recCapture, &captureRecord{r})
	})
	if err != nil {
		return Info{}, err
	}
	s.metrics.Note(func(m *info.Metrics) { m.Snapshots++; m.LastSnapshotMs = info.MsSince(start) })
	s.event(Event{Workspace: w.rec.View, Action: "captured", From: made.Name}, o.Caller)
	return made, nil
}

// unchanged returns the newest snapshot and ErrUnchanged if the workspace does not differ
// from it.
func (ss Snapshots) unchanged() (Info, error) {
	s := ss.w.store
	newest, err := ss.w.Find("latest")
	if errors.Is(err, ErrNotFound) {
		return Info{}, nil
	}
	if err != nil {
		return Info{}, err
	}
	then, err := ss.w.StateOf(newest.Name)
	if err != nil {
		return Info{}, err
	}
	defer s.Hold(then)()
	now, err := ss.w.State()
	if err != nil {
		return Info{}, err
	}
	differs := errors.New("it differs")
	err = tree.Diff(context.Background(), s.src, then, now, tree.DiffOptions{}, func(tree.Change) error { return differs })
	switch {
	case err == nil:
		return newest, ErrUnchanged
	case errors.Is(err, differs):
		return Info{}, nil
	}
	return Info{}, err
}

// alive refuses what is asked of a fork that has ended.
func (w *Workspace) alive() error {
	if w.store.cat.workspaces[w.rec.View] != w {
		return fmt.Errorf("%w: %q was deleted", ErrNoFork, w.rec.Name)
	}
	return nil
}

// newSnapshot prepares the record of a capture, if there may be one more snapshot. The
// lock is held.
func (ss Snapshots) newSnapshot(tx *live.Tx, o CaptureOptions) (storedSnapshot, error) {
	if err := ss.hasRoom(o); err != nil {
		return storedSnapshot{}, err
	}
	return ss.describe(tx, o)
}

// describe is the record of a capture. The lock is held.
func (ss Snapshots) describe(tx *live.Tx, o CaptureOptions) (storedSnapshot, error) {
	view, err := tx.NewView()
	if err != nil {
		return storedSnapshot{}, err
	}
	st := ss.w.present(tx)
	r := storedSnapshot{View: view, WS: ss.w.rec.View, Dir: ss.w.rec.Dir, Info: Info{
		Name: o.Name, Seq: ss.w.rec.NextSeq, Parent: ss.w.rec.Head, Kind: o.Kind, Message: o.Message, Labels: o.Labels,
		Created: ss.w.store.opt.Now(), Expires: o.Expires, UID: o.Caller.UID, PID: o.Caller.PID, Command: o.Caller.Command,
		Files: st.Inodes - 1, Bytes: st.Bytes, Pinned: o.Pinned, Image: o.Image, Actors: ss.presentActors(tx),
	}}
	if r.Name == "" {
		r.Name = fmt.Sprintf("cp-%d", r.Seq)
	}
	if ss.w.rec.Policy.ExpireSeconds > 0 && r.Expires == nil && o.Kind == KindManual {
		t := r.Created.Add(time.Duration(ss.w.rec.Policy.ExpireSeconds) * time.Second)
		r.Expires = &t
	}
	return r, nil
}

// captureRecord freezes the present state under a name.
type captureRecord struct{ storedSnapshot }

func (r *captureRecord) apply(c *entries, tx *live.Tx) error {
	w, ok := c.workspaces[r.WS]
	if !ok {
		return fmt.Errorf("%w: %s", ErrNoFork, r.Name)
	}
	st := w.freeze(tx)
	w.rec.Head = r.Name
	w.at = tx.Changed(w.rec.View)
	return c.keepState(tx, r.storedSnapshot, st, w.Snapshots().endInterval(tx))
}

// WaitSealed waits until a snapshot has its id. Everything acknowledged before
// is on disk when it returns.
func (ss Snapshots) WaitSealed(ctx context.Context, name string) (Info, error) {
	var sn *snap
	var err error
	ss.w.read(func() { sn, err = ss.w.store.cat.find(ss.w, name) })
	if err != nil {
		return Info{}, err
	}
	defer ss.w.store.seal.Pacer.Urgent()()
	if err := ss.w.store.seal.Wait(ctx, sn); err != nil {
		return Info{}, err
	}
	if err := ss.w.store.Sync(); err != nil {
		return Info{}, err
	}
	var info Info
	ss.w.read(func() { info = sn.Info })
	return info, nil
}

// SealPresent seals the present tree without a snapshot, and keeps it until release
// is called.
func (w *Workspace) SealPresent(ctx context.Context) (st *tree.State, release func(), err error) {
	s := w.store
	if st, err = w.State(); err != nil {
		return nil, nil, err
	}
	release = s.Hold(st)
	if _, err = s.seal.InTurn(ctx, w.rec.View, st); err != nil {
		release()
		return nil, nil, err
	}
	return st, release, nil
}

// DeleteAll removes snapshots, all of them or none, and returns their names. Others, and
// forks made from them, stay as they are.
func (ss Snapshots) DeleteAll(names []string, c actors.Caller) ([]string, error) {
	s := ss.w.store
	var gone []string
	err := s.forest.Update(true, func(tx *live.Tx) error {
		var r deleteRecord
		twice := make(map[uint32]bool)
		for _, name := range names {
			sn, err := s.cat.find(ss.w, name)
			if err != nil {
				return err
			}
			if twice[sn.View] {
				continue
			}
			twice[sn.View] = true
			if err := ss.mayDelete(sn, c); err != nil {
				return err
			}
			r.Views, gone = append(r.Views, sn.View), append(gone, sn.Name)
		}
		return s.commit(tx, recDelete, &r)
	})
	if err != nil {
		return nil, err
	}
	for _, name := range gone {
		s.event(Event{Workspace: ss.w.rec.View, Action: "removed", From: name}, c)
	}
	return gone, nil
}

type deleteRecord struct {
	Views []uint32 `json:"views"`
}

func (r *deleteRecord) apply(c *entries, tx *live.Tx) error {
	var gone []*snap
	for _, view := range r.Views {
		if sn, ok := c.snaps[view]; ok {
			gone = append(gone, sn)
		}
	}
	if len(gone) > 0 {
		c.passOn(tx, gone)
		c.remove(gone...)
		c.gc.Removed()
	}
	return nil
}

func (ss Snapshots) Rename(a, b string, c actors.Caller) error {
	if err := naming.Check(b); err != nil {
		return err
	}
	s := ss.w.store
	var old string
	err := s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.cat.find(ss.w, a)
		if err != nil {
			return err
		}
		old = sn.Name
		if sn.View == ss.w.rec.Base {
			return errs.New(errs.Protected, "protected: base cannot be renamed")
		}
		if ss.w.snaps.Named(b) != nil {
			return errs.New(errs.Exist, "name in use: snapshot %q exists", b)
		}
		if err := ss.mayRename(c); err != nil {
			return err
		}
		return s.commit(tx, recRename, &renameRecord{View: sn.View, Was: sn.Name, Name: b})
	})
	if err == nil {
		s.event(Event{Workspace: ss.w.rec.View, Action: "renamed-snapshot", From: old, Detail: b}, c)
	}
	return err
}

type renameRecord struct {
	View uint32 `json:"view"`
	// Was is the name before. A checkpoint under way may have written the new one already.
	Was  string `json:"was,omitempty"`
	Name string `json:"name"`
}

func (r *renameRecord) apply(c *entries, _ *live.Tx) error {
	sn, ok := c.snaps[r.View]
	if !ok {
		return nil
	}
	if w, ok := c.workspaces[sn.WS]; ok {
		if w.rec.Head == sn.Name || r.Was != "" && w.rec.Head == r.Was {
			w.rec.Head = r.Name
		}
		w.snaps.Rename(sn, r.Name)
	}
	c.touchSnap(sn.View)
	return nil
}

// Amend changes what is written down about a snapshot: pin, labels, expiry,
// git commit, counts. fn gets a copy to change.
func (ss Snapshots) Amend(name string, fn func(*Info)) error {
	s := ss.w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.cat.find(ss.w, name)
		if err != nil {
			return err
		}
		i := sn.Info
		fn(&i)
		return s.commit(tx, recAmend, &amendRecord{storedSnapshot{View: sn.View, WS: sn.WS, Info: i}})
	})
}

type amendRecord struct{ storedSnapshot }

func (r *amendRecord) apply(c *entries, _ *live.Tx) error {
	sn, ok := c.snaps[r.View]
	if !ok {
		return nil
	}
	was := sn.Info
	sn.Info = r.Seen()
	sn.Name, sn.ID, sn.Sealed = was.Name, was.ID, was.Sealed
	sn.UniqueBytes = max(was.UniqueBytes, r.UniqueBytes)
	c.touchSnap(sn.View)
	return nil
}
