package snapshot

import (
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// ConnectArgs are the arguments of Options.Connect.
type ConnectArgs struct {
	Disk  vfs.FS
	Dir   string // the directory of the store
	Empty bool   // the store has no checkpoint yet
}

// Object appends the bytes of an object, which may be on a remote, to dst[:0] and returns the result. It returns
// the errors of cas.Store.Get.
func (s *Store) Object(h cas.Hash, dst []byte) ([]byte, error) { return s.objects.Get(h, dst) }

// A StartSnapshot is the snapshot that a new store begins with instead of an empty tree.
// Its objects are on a remote.
type StartSnapshot struct {
	ID   cas.Hash
	Info info.Info // name, message, labels and time of the snapshot
}

// addStartSnapshot adds a pushed snapshot to main and returns its state, the first state of main.
func addStartSnapshot(t *applier, start *StartSnapshot, ws *catalogue.Workspace) (*tree.State, error) {
	info := start.Info
	info.Name = naming.LocalName(info.Name)
	if err := catalogue.CheckPulledInfo(info); err != nil {
		return nil, err
	}

	st, highest, err := t.LoadPushed(start.ID)
	if err != nil {
		return nil, err
	}

	t.SetCounters(highest+1, 0)
	r := catalogue.NewPull(info, start.ID, st, highest)
	if err := r.Place(t, ws); err != nil {
		return nil, err
	}

	return st, t.applyEffects(t.p.parts.Catalogue.Apply(t, r))
}

// AddPulled adds a fetched snapshot to the workspace. All its objects must be on disk in the store, or on a remote.
// If the caller stored the objects after a BeginImport, it must not end that import before AddPulled has returned.
func (rs Remotes) AddPulled(i info.Info, id cas.Hash, c actors.Caller) (info.Info, error) {
	s := rs.w.store
	st, highest, err := s.objects.LoadPushed(s.src, id)
	if err != nil {
		return info.Info{}, err
	}

	r := catalogue.NewPull(i, id, st, highest)
	sn := &r.Snapshot
	sn.UID, sn.PID, sn.Actors, sn.ActorSets = c.UID, c.PID, i.Actors, i.ActorSets
	if err := s.commitNewRecord(c, func(tx *live.Tx) (catalogue.Record, error) {
		if err := rs.w.ws.CheckPull(i); err != nil {
			return nil, err
		}
		return r, r.Place(tx, rs.w.ws)
	}); err != nil {
		return info.Info{}, err
	}

	s.Hooks.emit(events.Event{Workspace: rs.w.ws.View, Action: "pulled", From: i.Name}, c)

	return sn.UserInfo(), s.Sync()
}

// CheckPull returns the error that AddPulled would return for the name and description of a snapshot. Callers call
// it before they fetch the snapshot.
func (rs Remotes) CheckPull(i info.Info) (err error) {
	rs.w.withReadLock(func() { err = rs.w.ws.CheckPull(i) })
	return err
}

// An OutgoingSnapshot is a snapshot to be sent to a remote. It is sealed, and protected from gc until the caller
// calls Release.
type OutgoingSnapshot struct {
	Info      info.Info
	State     *tree.State
	ActorSets []cas.Hash // objects that are sent in addition to the tree
	Claim     string     // the label of the snapshot's fork, "" if the fork was not claimed
	Lineage   []string   // ids of earlier states of the fork
	Release   func()
}

// ReportPushed emits the event for a snapshot that was sent to a remote.
func (rs Remotes) ReportPushed(name, remote string, c actors.Caller) {
	rs.w.store.Hooks.emit(events.Event{Workspace: rs.w.ws.View, Action: "pushed", From: name, Detail: remote}, c)
}

// PreparePush waits until a snapshot is sealed, and protects it from gc.
func (rs Remotes) PreparePush(ctx context.Context, name string) (*OutgoingSnapshot, error) {
	info, err := rs.w.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return nil, err
	}

	st, release, err := rs.HoldToSend(ctx, info.Name)
	if err != nil {
		return nil, err
	}

	if id, ok := st.ID(); ok { // if the policy leaves files out, the id of the state differs from the snapshot's id
		info.ID, info.Files, info.Bytes = id.String(), st.Inodes-1, st.Bytes
	}
	p := &OutgoingSnapshot{Info: info, State: st, Release: release}
	rs.w.withReadLock(func() {
		if p.Claim, p.Lineage = info.Claim, info.Lineage; rs.w.ws.Claim != "" {
			p.Claim, p.Lineage = rs.w.ws.Claim, rs.w.store.cat.Lineage(rs.w.ws, info.Seq)
		}
	})

	if p.ActorSets, err = rs.storeActorSets(info.View); err != nil {
		p.Release()
		return nil, err
	}

	return p, nil
}

// SendsAll reports whether HoldToSend returns the same state as HoldState: it does if the policy of main forgets
// no paths.
func (rs Remotes) SendsAll() bool { return len(rs.w.store.Main().Policy().Forget) == 0 }

// HoldToSend returns a state as HoldState does, for a receiver outside of the store: the state has an id, and does
// not contain the paths that the policy of main forgets.
func (rs Remotes) HoldToSend(ctx context.Context, name string) (st *tree.State, release func(), err error) {
	st, release, err = rs.w.HoldState(name)
	patterns := rs.w.store.Main().Policy().Forget
	if err != nil || len(patterns) == 0 {
		return st, release, err
	}
	defer rs.w.store.BeginImport()()

	releaseWhole := release
	defer func() {
		if err != nil {
			releaseWhole()
		}
	}()

	m, err := hide.New(patterns)
	if err != nil {
		return nil, nil, err
	}
	paths, err := hiddenPaths(ctx, rs.w.store.src, st, m)
	if err != nil || len(paths) == 0 {
		return st, release, err
	}

	reduced, _, releaseReduced, err := sealWithout(ctx, rs.w, st, paths, false)
	if err != nil {
		return nil, nil, err
	}
	releaseWhole()

	return reduced, releaseReduced, nil
}

// UnsentPaths returns the paths of the present state that the policy of main forgets.
func (rs Remotes) UnsentPaths(ctx context.Context) ([]string, error) {
	st, release, err := rs.w.HoldState("")
	if err != nil {
		return nil, err
	}
	defer release()

	patterns := rs.w.store.Main().Policy().Forget
	if len(patterns) == 0 {
		return []string{}, nil
	}
	m, err := hide.New(patterns)
	if err != nil {
		return nil, err
	}

	paths, err := hiddenPaths(ctx, rs.w.store.src, st, m)
	return append([]string{}, paths...), err
}

// Lineage returns the ids of the earlier states of the workspace, including the states that it was
// forked from.
func (rs Remotes) Lineage() (ids []string) {
	rs.w.withReadLock(func() { ids = rs.w.store.cat.Lineage(rs.w.ws, 0) })
	return ids
}

// NewestWithID returns the name of the newest snapshot whose id is one of ids. If only the base has such an id, it
// returns "base". If no snapshot has one, it returns "".
func (rs Remotes) NewestWithID(ids []string) (name string) {
	rs.w.withReadLock(func() { name = rs.w.store.cat.NewestWithID(rs.w.ws, ids) })
	return name
}
