package service

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// open waits until the snapshot has its id, and sends Opened. It protects the objects of the snapshot and of
// its bases from gc until the client closes the connection. The client runs git itself, with the rights of its user.
func (es *Exports) open(ctx context.Context, r *Request, a Open) (None, error) {
	e, err := es.newExportSource(ctx, r.Workspace, a.Name)
	if err != nil {
		return None{}, err
	}
	defer e.releaseAll()

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

// openChanges sends OpenedChanges, and protects the objects of two states from gc until the client closes the
// connection. One is the state of the directory from which the workspace was filled. The other is a snapshot
// or the present state of the workspace.
func (es *Exports) openChanges(ctx context.Context, r *Request, a OpenChanges) (None, error) {
	if a.Undo != 0 {
		return es.openUndo(ctx, r, a.Undo)
	}

	base, releaseBase, err := r.Workspace.Directory().Hold(ctx)
	if err != nil {
		return None{}, err
	}
	defer releaseBase()

	now, release, err := sealedState(ctx, r.Workspace, a.Name)
	if err != nil {
		return None{}, err
	}
	defer release()

	return sendChanges(ctx, r, idOf(base), idOf(now))
}

// sendChanges sends OpenedChanges, and returns when the client closes the connection.
func sendChanges(ctx context.Context, r *Request, base, target string) (None, error) {
	rules := r.Workspace.Policy()
	return sendAndWait(ctx, r, OpenedChanges{Base: base, Now: target, Hide: rules.Hide, HideAsEmpty: rules.HideAsEmpty})
}

// sealedState waits until a snapshot has its id, and returns its state. The name "" is the present state. The state's
// objects are protected from gc until release is called.
func sealedState(ctx context.Context, ws *snapshot.Workspace, name string) (st *tree.State, release func(), err error) {
	if name == "" {
		return ws.SealPresent(ctx)
	}

	s, err := holdStored(ctx, ws, name, ws.HoldState)
	return s.state, s.release, err
}

// A storedSnapshot is a snapshot that has its id.
type storedSnapshot struct {
	info  info.Info
	state *tree.State
	// release ends the protection of the state's objects from gc.
	release func()
}

// idOf returns the id of a state as text. The caller passes only states that have an id.
func idOf(st *tree.State) string {
	id, _ := st.ID()
	return id.String()
}

// holdStored waits until a snapshot has its id, and protects its objects from gc until the caller calls
// storedSnapshot.release. The function hold is Workspace.HoldState or, for an export, calls Remotes.HoldToSend.
func holdStored(ctx context.Context, ws *snapshot.Workspace, name string, hold func(name string) (*tree.State, func(), error)) (storedSnapshot, error) {
	i, err := ws.Snapshots().WaitSealed(ctx, name)
	if err != nil {
		return storedSnapshot{}, err
	}

	st, release, err := hold(i.Name)
	if err != nil {
		return storedSnapshot{}, err
	}

	if _, ok := st.ID(); !ok {
		release()
		return storedSnapshot{}, errs.Fail(errs.Failed, "snapshot %s is not stored", i.Name)
	}

	return storedSnapshot{i, st, release}, nil
}

// openUndo does what openChanges does, for the undo of an apply: the changes lead from the state of the directory
// after the apply to its state before the apply.
func (es *Exports) openUndo(ctx context.Context, r *Request, number uint64) (None, error) {
	op, err := r.Workspace.Ops().ByNumber(number)
	if err != nil {
		return None{}, err
	}
	if op.Apply == nil {
		return None{}, errs.Fail(errs.Invalid, "operation %d is no apply", number)
	}

	// If the apply was killed, After is "", and the directory has a part of the applied state. Then the whole applied
	// state is used.
	base, now := cmp.Or(op.Apply.After, op.Apply.AppliedState), op.Apply.Before
	for _, id := range []string{base, now} {
		release, err := es.holdStateID(r.source, id)
		if err != nil {
			return None{}, err
		}
		defer release()
	}

	return sendChanges(ctx, r, base, now)
}

// holdStateID protects the state with the given id from gc until release is called.
func (es *Exports) holdStateID(src *tree.Source, id string) (release func(), err error) {
	h, err := cas.ParseHash(id)
	if err != nil {
		return nil, err
	}

	st, err := tree.Load(src, h)
	if err != nil {
		return nil, err
	}

	return es.store.Hold(st), nil
}

// MaxObjects is the largest number of objects in one request.
const MaxObjects = 1024

// readObjects writes each object with its length in front (32 bits, little endian). The hashes are
// arguments and not a stream, because net/http closes the body of a request at the first flush of
// the answer.
func (es *Exports) readObjects(_ context.Context, r *Request, a Objects) (None, error) {
	if len(a.Hashes) > MaxObjects {
		return None{}, errs.Fail(errs.Invalid, "%d objects in one request are more than the %d allowed", len(a.Hashes), MaxObjects)
	}
	out := bufio.NewWriterSize(r.Out, 256<<10)
	var object []byte

	for _, text := range a.Hashes {
		h, err := cas.ParseHash(text)
		if err != nil {
			return None{}, errs.Fail(errs.Invalid, "%w", err)
		}
		if object, err = es.store.Object(h, object); err != nil {
			return None{}, err
		}

		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(object))))
		if _, err := out.Write(object); err != nil {
			return None{}, err
		}
	}

	return None{}, out.Flush()
}
