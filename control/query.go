package control

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A subject tells what a generated diff compares, so that it is made once: the views
// of two snapshots, or of one and how often the workspace had changed.
type subject struct {
	a, b    uint32
	changes uint64
}

// subject tells what a diff compares just now.
func (t *Tree) subject(ws *snapshot.Workspace, q query) (subject, error) {
	a, err := ws.Find(q.a)
	if err != nil {
		return subject{}, err
	}
	if q.b != "" {
		b, err := ws.Find(q.b)
		return subject{a: a.View, b: b.View}, err
	}
	s := subject{a: a.View, b: ws.View()}
	err = t.forest.View(func(tx *live.Tx) error {
		s.changes = tx.Changed(ws.View())
		return nil
	})
	return s, err
}

// lookupQuery finds a generated file. What compares the same has one name, that of the
// snapshots; all others are symlinks to it.
func (t *Tree) lookupQuery(ws *snapshot.Workspace, q query, name string, r Request) (Entry, error) {
	q, err := canonical(ws, q)
	if err != nil {
		return Entry{}, err
	}
	if to := q.String(); to != name {
		return t.link(ws, name, to), nil
	}
	if q.what == "info" {
		return t.lookupInfo(ws, name, q.a)
	}
	e, err := t.lookupDiff(ws, q, name, r)
	if errors.Is(err, live.ErrTooBig) || errors.Is(err, errs.Quota) {
		t.log.Warn("a control file is not rendered", "workspace", ws.Name(), "file", name, "err", err)
	}
	return e, err
}

// canonical puts the names of snapshots into a query for whatever else means them.
func canonical(ws *snapshot.Workspace, q query) (query, error) {
	a, err := ws.Find(q.a)
	if err != nil {
		return q, err
	}
	q.a = a.Name
	if q.b != "" {
		b, err := ws.Find(q.b)
		if err != nil {
			return q, err
		}
		q.b = b.Name
	}
	return q, nil
}

func (t *Tree) lookupInfo(ws *snapshot.Workspace, name, of string) (Entry, error) {
	info, err := ws.Find(of)
	if err != nil {
		return Entry{}, err
	}
	b, err := renderJSON(info)
	if err != nil {
		return Entry{}, err
	}
	return t.publish(ws, name, typeFile|0o444, small(b), subject{}, nil), nil
}

// lookupDiff finds a diff. As long as both sides are the same it is not rendered again,
// though its name is looked up for every step of `less diff@v1`.
func (t *Tree) lookupDiff(ws *snapshot.Workspace, q query, name string, r Request) (e Entry, err error) {
	a := service.Diff{A: q.a, B: q.b, Format: "patch"}
	if q.what == "stat" {
		a.Format = "name-status"
	}
	// Even the size of a diff is no business of others.
	if err := t.Service.Admit(context.Background(), r.ask(ws), a); err != nil {
		return e, err
	}
	e, of, ok, err := t.rendered(ws, q, name)
	if ok || err != nil {
		return e, err
	}
	err = t.compute(ws, r, func(ctx context.Context) error {
		// Somebody else may have rendered the same while this one waited.
		if e, of, ok, err = t.rendered(ws, q, name); ok || err != nil {
			return err
		}
		w := &contentWriter{store: t.store}
		ask := r.ask(ws)
		ask.Out = w
		if _, err := service.Do[service.None](ctx, t.Service, ask, a); err != nil {
			w.discard()
			return err
		}
		c, err := w.content()
		if err != nil {
			return err
		}
		e = t.publish(ws, name, t.ownersMode(), c, of, nil)
		return nil
	})
	return e, err
}

// rendered answers with the present node of a diff if it was made from the same; else
// it returns what it is to be made from.
func (t *Tree) rendered(ws *snapshot.Workspace, q query, name string) (e Entry, of subject, ok bool, err error) {
	if of, err = t.subject(ws, q); err != nil {
		return e, of, false, err
	}
	root := t.rootAttr(ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	if k := t.dirLocked(ws).tenant; k.stored > t.maxHeld {
		return e, of, false, errs.New(errs.Quota, "%d MiB of diffs are open; close some", k.stored>>20)
	}
	n := t.dirLocked(ws).current[name]
	if n == nil || n.of != of {
		return e, of, false, nil
	}
	return n.entryLocked(root), of, true, nil
}

// ownersMode is the mode of files that tell names and contents of other files,
// whoever may read those: where other users are let in, it is for the owner of the
// workspace.
func (t *Tree) ownersMode() uint32 {
	if t.AllowOther {
		return typeFile | 0o400
	}
	return typeFile | 0o444
}

// keepLocked puts the content of a new node on its tenant's account, and makes room.
func (t *Tree) keepLocked(n *node) {
	k := n.dir.tenant
	if n.content == nil || n.content.file == nil {
		return
	}
	k.chargeLocked(n.content)
	k.large = append(k.large, n)
	var names []live.Entry
	left := k.stored
	for left > t.maxStored && len(k.large) > 1 {
		oldest := k.large[0]
		k.large = k.large[1:]
		left -= oldest.content.Size()
		names = append(names, oldest.dir.entryOf(oldest.name))
	}
	t.Kernel.DropEntries(names)
}
