package service

import (
	"cmp"
	"context"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// openSnapshot waits until the snapshot has its id, sends Opened, and protects the objects of the snapshot
// and of its bases from gc until the client closes the connection. Git runs in the client, with the
// rights of its user.
func openSnapshot(ctx context.Context, r *Request, a Open) (None, error) {
	e, err := newExportSource(ctx, r.Workspace, a.Name)
	if err != nil {
		return None{}, err
	}
	defer e.releaseAll()

	e.info.Actors = authors(r.Workspace, e.info.Actors)
	out := Opened{Info: e.info, State: idOf(e.state), Parents: e.parents, Bases: []Base{}}
	for _, b := range e.bases {
		out.Bases = append(out.Bases, Base{State: idOf(b.state), Commits: b.info.GitCommits})
	}

	return sendAndWait(ctx, r, out)
}

// sendAndWait sends the only event of an operation that protects objects, and returns when the client closes the
// connection.
func sendAndWait(ctx context.Context, r *Request, opened any) (None, error) {
	if err := r.Item(opened); err != nil {
		return None{}, err
	}

	<-ctx.Done()
	return None{}, nil
}

// openChanges sends OpenedChanges, and protects the objects of two states from gc until the client
// closes the connection. The states are the one of the directory from which the workspace was
// filled, and a snapshot or the present state of the workspace.
func openChanges(ctx context.Context, r *Request, a OpenChanges) (None, error) {
	if a.Undo != 0 {
		return openUndo(ctx, r, a.Undo)
	}

	base, releaseBase, err := r.Workspace.Directory().Held(ctx)
	if err != nil {
		return None{}, err
	}
	defer releaseBase()

	var now *tree.State

	if a.Name == "" {
		st, release, err := r.Workspace.SealPresent(ctx)
		if err != nil {
			return None{}, err
		}
		defer release()

		now = st
	} else {
		named, err := waitStored(ctx, r.Workspace, a.Name)
		if err != nil {
			return None{}, err
		}
		defer named.release()

		now = named.state
	}

	rules := r.Workspace.Policy()
	return sendAndWait(ctx, r, OpenedChanges{Base: idOf(base), Now: idOf(now), Hide: rules.Hide, HideEmpty: rules.HideEmpty})
}

// waitStored waits until a snapshot has its id. The caller releases the snapshot.
func waitStored(ctx context.Context, ws *snapshot.Workspace, name string) (storedSnapshot, error) {
	info, err := ws.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return storedSnapshot{}, err
	}
	return holdStored(ws, info)
}

// waitToSend is waitStored for an export.
func waitToSend(ctx context.Context, ws *snapshot.Workspace, name string) (storedSnapshot, error) {
	info, err := ws.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return storedSnapshot{}, err
	}

	st, release, err := ws.HeldToSend(ctx, info.Name)
	return asStored(storedSnapshot{info, st, release}, err)
}

// A storedSnapshot is a snapshot that has its id.
type storedSnapshot struct {
	info  info.Info
	state *tree.State
	// release ends the protection of the state's objects from gc.
	release func()
}

// idOf returns the id of a state that has one.
func idOf(st *tree.State) string {
	id, _ := st.ID()
	return id.String()
}

// holdStored protects the objects of a snapshot from gc until the caller releases it. It fails if the
// snapshot has no id yet.
func holdStored(ws *snapshot.Workspace, info info.Info) (storedSnapshot, error) {
	st, release, err := ws.Held(info.Name)
	return asStored(storedSnapshot{info, st, release}, err)
}

// asStored returns an error for a snapshot without an id, and releases it.
func asStored(s storedSnapshot, err error) (storedSnapshot, error) {
	if err != nil {
		return s, err
	}

	if _, ok := s.state.ID(); !ok {
		s.release()
		return s, errs.Fail(errs.Failed, "snapshot %s is not stored", s.info.Name)
	}

	return s, nil
}

// openUndo is openChanges of the states between which an apply is undone.
func openUndo(ctx context.Context, r *Request, number uint64) (None, error) {
	op, err := r.Workspace.Ops().Named(number)
	if err != nil {
		return None{}, err
	}
	if op.Apply == nil {
		return None{}, errs.Fail(errs.Invalid, "operation %d is no apply", number)
	}

	// Of an apply that was killed, the directory has a part of the state that was applied.
	rules := r.Workspace.Policy()
	opened := OpenedChanges{Base: cmp.Or(op.Apply.After, op.Apply.Now), Now: op.Apply.Before, Hide: rules.Hide, HideEmpty: rules.HideEmpty}
	for _, id := range []string{opened.Base, opened.Now} {
		release, err := holdID(r.Workspace.Store(), id)
		if err != nil {
			return None{}, err
		}
		defer release()
	}

	return sendAndWait(ctx, r, opened)
}

// holdID protects a state from gc until release is called.
func holdID(s *snapshot.Store, id string) (release func(), err error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}

	st, err := tree.Load(s.Source(), h)
	if err != nil {
		return nil, err
	}

	return s.Hold(st), nil
}
