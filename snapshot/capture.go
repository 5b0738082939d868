package snapshot

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type CaptureOptions struct {
	Name    string            `json:"name,omitempty" jsonschema:"its name; cp-NUMBER if empty"`
	Message string            `json:"message,omitempty" jsonschema:"its message"`
	Labels  map[string]string `json:"labels,omitempty" jsonschema:"labels: keys and values"`
	Expires string            `json:"expires,omitempty" jsonschema:"delete it after this time: 30m, 24h, 7d, 2w, or a date in RFC 3339"`
	Kind    string            `json:"kind,omitempty" jsonschema:"manual or turn"`
	// Wait is an option of the service, which then answers when the snapshot is sealed. Capture ignores
	// Wait; see WaitSealed.
	Wait   bool `json:"wait,omitempty" jsonschema:"answer when it is stored and has its id"`
	Pinned bool `json:"pinned,omitempty" jsonschema:"protect it from deletion"`
	// If IfChanged is set and the workspace equals the newest snapshot, Capture returns that snapshot and
	// ErrUnchanged. Hooks of agents use it, so that a turn without changes makes no snapshot.
	IfChanged bool          `json:"if_changed,omitempty" jsonschema:"take none if nothing differs from the newest snapshot, and answer with that one"`
	Caller    actors.Caller `json:"-"`
	Image     *info.Image   `json:"-"` // the image that was just imported, or nil
}

// Capture makes a snapshot of the present state, in a time that does not depend on the size of the tree. The
// snapshot has no id until it is sealed in the background: see WaitSealed.
func (w *Workspace) Capture(o CaptureOptions) (info.Info, error) {
	if o.Name != "" {
		if err := naming.Check(o.Name); err != nil {
			return info.Info{}, err
		}
	}

	if err := naming.CheckDescription(o.Message, o.Labels); err != nil {
		return info.Info{}, err
	}

	s := w.store
	now := s.opt.Now()
	expires, err := policy.ParseExpiry(o.Expires, now)
	if err != nil {
		return info.Info{}, err
	}

	start := time.Now()
	if o.Kind == "" {
		o.Kind = info.KindManual
	}

	placeholders, err := w.placeholders(o.Caller)
	if err != nil {
		return info.Info{}, err
	}

	if o.IfChanged {
		if newest, err := w.Snapshots().newestIfUnchanged(placeholders); err != nil {
			return newest, err
		}
	}

	r := &catalogue.Capture{SnapshotRecord: o.describe(now), Placeholders: placeholders}
	r.Expires = expires
	if err := s.commitNewRecord(o.Caller, func(tx *live.Tx) (catalogue.Record, error) {
		if err := w.ws.CheckCapture(&r.SnapshotRecord); err != nil {
			return nil, err
		}
		return r, r.PlaceNext(s.cat, tx, w.ws)
	}); err != nil {
		return info.Info{}, err
	}

	s.parts.Metrics.Update(func(m *info.Metrics) { m.Snapshots++; m.LastSnapshotMs = info.MsSince(start) })
	s.Hooks.emit(events.Event{Workspace: w.ws.View, Action: "captured", From: r.Name}, o.Caller)

	return r.UserInfo(), nil
}

// describe returns the record of a snapshot that is taken at the time now, with only its description.
func (o CaptureOptions) describe(now time.Time) catalogue.SnapshotRecord {
	return catalogue.SnapshotRecord{Info: info.Info{
		Name: o.Name, Kind: o.Kind, Message: o.Message, Labels: o.Labels, Created: now,
		Process: info.Process{UID: o.Caller.UID, PID: o.Caller.PID, Command: o.Caller.Command}, Pinned: o.Pinned, Origin: info.Origin{Image: o.Image},
	}}
}

// newestIfUnchanged returns the newest snapshot and ErrUnchanged if the workspace equals the snapshot. It ignores
// the mount points in placeholders (see Workspace.placeholders), because snapshots do not contain them. If the
// workspace differs or has no snapshot, the error is nil.
func (ss Snapshots) newestIfUnchanged(placeholders []naming.BytePath) (info.Info, error) {
	s := ss.w.store
	newest, err := ss.w.Find("latest")
	if errors.Is(err, catalogue.ErrNotFound) {
		return info.Info{}, nil
	}
	if err != nil {
		return info.Info{}, err
	}

	newestState, releaseNewest, err := ss.w.HoldState(newest.Name)
	if err != nil {
		return info.Info{}, err
	}
	defer releaseNewest()

	presentState, releasePresent, err := ss.w.holdState("", placeholders)
	if err != nil {
		return info.Info{}, err
	}
	defer releasePresent()

	equal, err := tree.Equal(context.Background(), s.src, newestState, presentState, tree.DiffOptions{}, 0)
	if err != nil || !equal {
		return info.Info{}, err
	}

	return newest, ErrUnchanged
}

// WaitSealed waits until a snapshot has its id. When it returns, all changes that were acknowledged before the call
// are on disk. This does not include the files with which the store was filled: Store.Sync makes these durable,
// too.
func (ss Snapshots) WaitSealed(ctx context.Context, name string) (info.Info, error) {
	var sn *catalogue.Snapshot
	var err error
	ss.w.withReadLock(func() { sn, err = ss.w.store.cat.Find(ss.w.ws, name) })
	if err != nil {
		return info.Info{}, err
	}
	defer ss.w.store.sealer.Pacer.BeginUrgent()()

	if err := ss.w.store.sealer.EnsureSealed(ctx, sn); err != nil {
		return info.Info{}, err
	}
	if err := ss.w.store.log.Sync(); err != nil {
		return info.Info{}, err
	}

	var info info.Info
	ss.w.withReadLock(func() { info = sn.Info })

	return info, nil
}

// SealPresent seals the present state without a snapshot, and protects it from gc until release is called.
func (w *Workspace) SealPresent(ctx context.Context) (st *tree.State, release func(), err error) {
	if st, release, err = w.HoldState(""); err != nil {
		return nil, nil, err
	}

	if _, err = w.store.sealer.SealInTurn(ctx, w.ws.View, st); err != nil {
		release()
		return nil, nil, err
	}

	return st, release, nil
}

// DeleteAll removes all of the named snapshots, or none after an error, and returns their names.
// Forks that were made from them are not affected.
func (ss Snapshots) DeleteAll(names []string, c actors.Caller) ([]string, error) {
	removed, _, err := ss.deleteAll(names, false, c)
	return removed, err
}

// Remove deletes snapshots for a user, as DeleteAll does. The user can undo the deletion until the returned time,
// which is zero if the deletion cannot be undone.
func (ss Snapshots) Remove(names []string, c actors.Caller) (removed []string, until time.Time, err error) {
	return ss.deleteAll(names, true, c)
}

func (ss Snapshots) deleteAll(names []string, keepForUndo bool, c actors.Caller) (removed []string, until time.Time, err error) {
	s := ss.w.store
	err = s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		r, names, err := catalogue.NewDelete(s.cat, ss.w.ws, names, c, s.opt.Now())
		if err != nil {
			return nil, err
		}
		if keepForUndo {
			r.Op = ss.w.Ops().newOp(catalogue.OpRemove, strings.Join(names, " "), c)
			until = ss.w.Ops().keepRemoved(r.Op, r.Views)
		}

		removed = names
		return r, nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	for _, name := range removed {
		s.Hooks.emit(events.Event{Workspace: ss.w.ws.View, Action: "removed", From: name}, c)
	}

	return removed, until, nil
}

// Rename gives a snapshot a new name. Its present name may be any name that Workspace.Find accepts.
func (ss Snapshots) Rename(name, newName string, c actors.Caller) error {
	s := ss.w.store
	var oldName string
	if err := s.commitNewRecord(c, func(*live.Tx) (catalogue.Record, error) {
		r, err := catalogue.NewRename(s.cat, ss.w.ws, name, newName, c)
		if err != nil {
			return nil, err
		}

		oldName = r.OldName
		r.Op = ss.w.Ops().newOp(catalogue.OpRename, oldName, c)
		r.Op.NewName, r.Op.View = newName, r.View
		return r, nil
	}); err != nil {
		return err
	}

	s.Hooks.emit(events.Event{Workspace: ss.w.ws.View, Action: "renamed-snapshot", From: oldName, Detail: newName}, c)

	return nil
}

// Amend changes the description of a snapshot, such as its pin, labels, expiry and git commit. It calls fn, which
// changes a copy of the description, with the lock of the forest held.
func (ss Snapshots) Amend(name string, fn func(*info.Info)) error {
	s := ss.w.store
	return s.commitNewRecord(actors.Caller{}, func(*live.Tx) (catalogue.Record, error) {
		sn, err := s.cat.Find(ss.w.ws, name)
		if err != nil {
			return nil, err
		}

		i := sn.Info
		fn(&i)

		return &catalogue.Amend{SnapshotRecord: catalogue.SnapshotRecord{View: sn.View, WS: sn.WS, Info: i}}, nil
	})
}
