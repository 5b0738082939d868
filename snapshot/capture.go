package snapshot

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/live"
)

func isNotFound(err error) bool { return errors.Is(err, cas.ErrNotFound) }

// CaptureOptions describes the snapshot to make.
type CaptureOptions struct {
	Name    string // cp-<seq> when empty
	Message string
	Labels  map[string]string
	Expires *time.Time
	Pinned  bool
	Origin  string // OriginManual when empty
	Caller  live.Caller
	Command string
}

// Capture makes a snapshot of the present state. It takes the same time
// whatever the size of the tree.
func (w *Workspace) Capture(_ context.Context, o CaptureOptions) (Info, error) {
	if o.Name != "" {
		if err := CheckName(o.Name); err != nil {
			return Info{}, err
		}
	}
	if err := checkDescription(o.Message, o.Labels); err != nil {
		return Info{}, err
	}
	start := time.Now()
	if o.Origin == "" {
		o.Origin = OriginManual
	}
	s := w.store
	var info Info
	err := s.forest.Update(true, func(tx *live.Tx) error {
		if err := w.alive(); err != nil {
			return err
		}
		if _, used := w.byName[o.Name]; used {
			return fmt.Errorf("%w: there is a snapshot %q already; choose another name or remove it first", ErrExists, o.Name)
		}
		if err := w.admitCapture(o.Origin); err != nil {
			return err
		}
		r, err := w.newSnapshot(tx, o)
		if err != nil {
			return err
		}
		if err := s.journal(tx, recCapture, r); err != nil {
			return err
		}
		sn, err := s.applyCapture(tx, r)
		if err == nil {
			info = sn.Info
		}
		return err
	})
	if err != nil {
		return Info{}, err
	}
	s.figures.captured(time.Since(start))
	s.event(Event{Workspace: w.view, Action: "captured", From: info.Name, Caller: o.Caller, Command: o.Command})
	return info, nil
}

// alive refuses what is asked of a fork that has ended.
func (w *Workspace) alive() error {
	if w.store.cat.workspaces[w.view] != w {
		return fmt.Errorf("%w: %q has ended", ErrNoFork, w.name)
	}
	return nil
}

// newSnapshot prepares the record of a capture. The lock is held.
func (w *Workspace) newSnapshot(tx *live.Tx, o CaptureOptions) (stored, error) {
	view, err := tx.NewView()
	if err != nil {
		return stored{}, err
	}
	st, ok := tx.State(w.view)
	if !ok {
		return stored{}, live.ErrStale
	}
	r := stored{View: view, WS: w.view, Info: Info{
		Name: o.Name, Seq: w.nextSeq, Parent: w.head, Origin: o.Origin, Message: o.Message, Labels: o.Labels,
		Created: time.Now(), Expires: o.Expires, UID: o.Caller.UID, PID: o.Caller.PID, Command: o.Command,
		Files: st.Inodes - 1, Bytes: st.Bytes, Pinned: o.Pinned,
	}}
	if r.Name == "" {
		r.Name = fmt.Sprintf("cp-%d", r.Seq)
	}
	if w.policy.ExpireSeconds > 0 && r.Expires == nil && o.Origin == OriginManual {
		t := r.Created.Add(time.Duration(w.policy.ExpireSeconds) * time.Second)
		r.Expires = &t
	}
	return r, nil
}

// applyCapture freezes the present state under the name of the record.
func (s *Store) applyCapture(tx *live.Tx, r stored) (*snap, error) {
	tx.UseView(r.View)
	w, ok := s.cat.workspaces[r.WS]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoFork, r.Name)
	}
	st, err := tx.Capture(r.WS)
	if err != nil {
		return nil, err
	}
	sn, err := fromStored(r)
	if err != nil {
		return nil, err
	}
	sn.state.Store(st)
	s.cat.add(sn)
	w.head = sn.Name
	w.at = tx.Changed(w.view)
	s.seal.push(sn)
	return sn, nil
}

// WaitSealed waits until a snapshot has its id. Everything acknowledged before
// is on disk when it returns.
func (w *Workspace) WaitSealed(ctx context.Context, name string) (Info, error) {
	var sn *snap
	var err error
	w.read(func() { sn, err = w.store.find(w, name) })
	if err != nil {
		return Info{}, err
	}
	if err := w.store.waitSeal(ctx, sn); err != nil {
		return Info{}, err
	}
	if err := w.store.Sync(); err != nil {
		return Info{}, err
	}
	var info Info
	w.read(func() { info = sn.Info })
	return info, nil
}

// Delete removes a snapshot. Others, and forks made from it, stay as they are.
func (w *Workspace) Delete(name string, c live.Caller) error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.find(w, name)
		if err != nil {
			return err
		}
		if err := w.mayDelete(sn, c); err != nil {
			return err
		}
		r := deleteRecord{Views: []uint32{sn.View}}
		if err := s.journal(tx, recDelete, r); err != nil {
			return err
		}
		s.applyDelete(r)
		return nil
	})
}

func (s *Store) applyDelete(r deleteRecord) {
	for _, view := range r.Views {
		if sn, ok := s.cat.snaps[view]; ok {
			s.cat.remove(sn)
			s.garbage.removed.Add(1)
		}
	}
}

// Rename gives a snapshot another name.
func (w *Workspace) Rename(a, b string, c live.Caller) error {
	if err := CheckName(b); err != nil {
		return err
	}
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.find(w, a)
		if err != nil {
			return err
		}
		if sn.View == w.origin {
			return fmt.Errorf("%w: the origin cannot be renamed", ErrProtected)
		}
		if _, used := w.byName[b]; used {
			return fmt.Errorf("%w: there is a snapshot %q already", ErrExists, b)
		}
		if err := w.mayRename(c); err != nil {
			return err
		}
		r := renameRecord{View: sn.View, Name: b}
		if err := s.journal(tx, recRename, r); err != nil {
			return err
		}
		s.applyRename(r)
		return nil
	})
}

func (s *Store) applyRename(r renameRecord) {
	sn, ok := s.cat.snaps[r.View]
	if !ok {
		return
	}
	if w, ok := s.cat.workspaces[sn.ws]; ok {
		delete(w.byName, sn.Name)
		w.byName[r.Name] = sn
		if w.head == sn.Name {
			w.head = r.Name
		}
		s.cat.touchWS(w.view)
	}
	sn.Name = r.Name
	s.cat.touchSnap(sn.View)
}

// Amend changes what is written down about a snapshot: pin, labels, expiry,
// git commit, counts. fn gets a copy to change.
func (w *Workspace) Amend(name string, fn func(*Info)) error {
	s := w.store
	return s.forest.Update(true, func(tx *live.Tx) error {
		sn, err := s.find(w, name)
		if err != nil {
			return err
		}
		r := sn.stored()
		fn(&r.Info)
		r.Name, r.Seq, r.ID, r.Sealed = sn.Name, sn.Seq, sn.ID, sn.Sealed
		if err := s.journal(tx, recAmend, r); err != nil {
			return err
		}
		s.applyAmend(r)
		return nil
	})
}

func (s *Store) applyAmend(r stored) {
	sn, ok := s.cat.snaps[r.View]
	if !ok {
		return
	}
	name, id, sealed, unique := sn.Name, sn.ID, sn.Sealed, sn.UniqueBytes
	sn.Info = r.Info
	sn.Name, sn.ID, sn.Sealed, sn.View = name, id, sealed, r.View
	sn.UniqueBytes = max(unique, r.UniqueBytes)
	s.cat.touchSnap(sn.View)
}
