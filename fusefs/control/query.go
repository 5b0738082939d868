package control

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A source says what a file was rendered from, so that it is rendered once: the views of
// two snapshots or of a snapshot and its workspace, and how often that one had changed.
type source struct {
	a, b    uint32
	changes uint64
}

// A query is a generated file whose name has the snapshots that it is about.
type query struct {
	op    *service.Op
	row   *service.Query
	names []string
}

func (q query) String() string { return q.row.File + "@" + strings.Join(q.names, "..") }

// parseQuery reads the name of a generated file, such as diff@A..B.
func parseQuery(name string) (query, bool) {
	what, names, ok := strings.Cut(name, "@")
	q := query{}
	if ok {
		q.op, q.row = service.Queried(what)
	}
	if q.op != nil {
		q.names = q.row.Snapshots(names)
	}
	return q, q.names != nil
}

// lookupQuery finds a generated file. What compares the same has one name, that of the
// snapshots; all others are symlinks to it.
func (t *Tree) lookupQuery(ws *snapshot.Workspace, q query, name string, r Request) (Entry, error) {
	var views [2]uint32
	for i, n := range q.names {
		info, err := ws.Find(n)
		if err != nil {
			return Entry{}, err
		}
		q.names[i], views[i] = info.Name, info.View
	}
	if to := q.String(); to != name {
		return t.link(ws, name, to)
	}
	args := q.op.With(q.row.Preset, q.row.Args, q.names)
	// The size of a diff says something about files, too.
	if err := t.Service.Admit(context.Background(), r.ask(ws), args); err != nil {
		return Entry{}, err
	}
	mode := uint32(typeFile | 0o444)
	if q.op.Access != service.Look {
		mode = t.ownersMode()
	}
	from := func() (source, error) { return t.sourceOf(ws, q, views) }
	e, err := t.lookupRendered(ws, name, mode, r, from, func(ctx context.Context, w io.Writer) error {
		ask := r.ask(ws)
		ask.Out = w
		result, err := t.Service.Do(ctx, ask, args)
		if err != nil || q.op.Output != "" {
			return err
		}
		return gitquote.Encoder(w).Encode(result)
	})
	if errors.Is(err, errs.TooBig) || errors.Is(err, errs.Quota) {
		t.log.Warn("a control file is not rendered", "workspace", ws.Name(), "file", name, "err", err)
	}
	return e, err
}

// sourceOf is what a query is rendered from: two snapshots, a snapshot and the present state
// or, if it is about one snapshot, that and the records of the workspace.
func (t *Tree) sourceOf(ws *snapshot.Workspace, q query, views [2]uint32) (source, error) {
	s := source{a: views[0], b: views[1]}
	_, most := q.row.Args.Limits()
	switch {
	case most == 1:
		s.changes = ws.Changes()
	case len(q.names) == 1:
		s.b = ws.View()
		return s, t.forest.View(func(tx *live.Tx) error {
			s.changes = tx.Changed(ws.View())
			return nil
		})
	}
	return s, nil
}

// A rendering is one under way. Requests for the same file wait for it.
type rendering struct {
	done chan struct{}
	from source
	err  error // set when done is closed
}

// lookupRendered finds a file that takes long to render. While its source is the same it
// is not rendered again, though its name is looked up for every step of `less diff@v1`,
// and one rendering serves all requests that come meanwhile.
func (t *Tree) lookupRendered(ws *snapshot.Workspace, name string, mode uint32, r Request,
	from func() (source, error), render func(context.Context, io.Writer) error) (Entry, error) {
	for {
		of, err := from()
		if err != nil {
			return Entry{}, err
		}
		e, ok, other, mine := t.rendered(ws, name, of)
		if ok {
			return e, nil
		}
		if mine != nil {
			return t.renderOne(ws, name, mode, r, mine, render)
		}
		if err := t.await(ws, r, other); err != nil {
			return Entry{}, err
		}
		if other.from == of && other.err != nil && !errors.Is(other.err, context.Canceled) {
			return Entry{}, other.err
		}
	}
}

// rendered returns the present node of a file if it was made from of. Else it returns
// the rendering of that file by another request or, if there is none, begins one.
func (t *Tree) rendered(ws *snapshot.Workspace, name string, of source) (e Entry, ok bool, other, mine *rendering) {
	root := t.rootAttr(ws)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	if n := d.current[slot{name, anybody}]; n != nil && n.source == of {
		return n.entryLocked(root), true, nil, nil
	}
	if other = d.rendering[name]; other != nil {
		return e, false, other, nil
	}
	mine = &rendering{done: make(chan struct{}), from: of}
	d.rendering[name] = mine
	return e, false, nil, mine
}

func (t *Tree) await(ws *snapshot.Workspace, r Request, other *rendering) error {
	k := t.tenant(ws)
	if err := enter(&k.waiting); err != nil {
		return err
	}
	defer k.waiting.Add(-1)
	ctx, stop := r.Context()
	defer stop()
	t.Kernel.Blocking(func() {
		select {
		case <-other.done:
		case <-ctx.Done():
		}
	})
	return ctx.Err()
}

func (t *Tree) renderOne(ws *snapshot.Workspace, name string, mode uint32, r Request, mine *rendering, render func(context.Context, io.Writer) error) (e Entry, err error) {
	mine.err = context.Canceled // if it panics
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.dirLocked(ws).rendering, name)
		close(mine.done)
	}()
	mine.err = t.compute(ws, r, func(ctx context.Context) error {
		w := t.newContent(ws)
		if err := render(ctx, w); err != nil {
			w.discard()
			return err
		}
		e = t.publish(ws, name, mode, w, mine.from)
		return nil
	})
	return e, mine.err
}

// ownersMode is the mode of files with names and contents of other files, whatever the
// modes of those are: where other users are let in, it is for the owner of the
// workspace.
func (t *Tree) ownersMode() uint32 {
	if t.AllowOther {
		return typeFile | 0o400
	}
	return typeFile | 0o444
}
