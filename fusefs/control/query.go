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

// A renderer makes the contents of generated files whose rendering may take long.
type renderer struct {
	cache      *cache
	queue      *queue
	service    *service.Service
	allowOther bool // Options.AllowOther
}

// A source identifies the states from which a file is rendered. A file with the same source is not
// rendered again.
type source struct {
	firstView, secondView uint32 // the views of two snapshots, or of a snapshot and its workspace
	changeCount           uint64 // the number of changes of the workspace
}

// A query is a generated file with names of snapshots in its name, such as diff@A..B.
type query struct {
	op    *service.Op
	row   *service.Query
	names []string
}

func (q query) String() string { return q.row.File + "@" + strings.Join(q.names, "..") }

// parseQuery parses the name of a query. It returns false for another name.
func parseQuery(name string) (query, bool) {
	file, names, ok := strings.Cut(name, "@")
	q := query{}
	if ok {
		q.op, q.row = service.FindQuery(file)
	}
	if q.op != nil {
		q.names = q.row.SplitNames(names)
	}

	return q, q.names != nil
}

// lookupQuery returns the file of a query. Only the spelling with the snapshots' own names is a file. Other
// spellings, such as cp-3 for a snapshot, are symlinks to that file.
func (g *renderer) lookupQuery(ws *snapshot.Workspace, q query, name string, r Request) (Entry, error) {
	var views [2]uint32
	for i, n := range q.names {
		info, err := ws.Find(n)
		if err != nil {
			return Entry{}, err
		}
		q.names[i], views[i] = info.Name, info.View
	}

	if to := q.String(); to != name {
		return g.cache.publishLink(ws, name, to)
	}

	// The caller needs the right of the operation even to look the name up, because the size of a diff is
	// information about files.
	args := q.op.ArgsFrom(q.row.Preset, q.row.Args, q.names)
	r.Workspace = ws
	if err := g.service.Admit(context.Background(), &r.Request, q.op, args); err != nil {
		return Entry{}, err
	}

	mode := uint32(typeFile | 0o444)
	if q.op.Access != service.AccessViewer {
		mode = ownersMode(g.allowOther)
	}

	findSource := func() source { return sourceOf(ws, q, views) }
	e, err := g.lookupRendered(ws, name, mode, r, findSource, func(ctx context.Context, w io.Writer) error {
		request := r.Request
		defer request.Release()

		request.Out = w
		result, err := g.service.Do(ctx, &request, args)
		if err != nil || q.op.Output != "" {
			return err
		}

		return gitquote.Encoder(w).Encode(result)
	})
	if errors.Is(err, errs.TooBig) || errors.Is(err, errs.Quota) {
		g.service.Log.Warn("a control file is not rendered", "workspace", ws.Name(), "file", name, "err", err)
	}

	return e, err
}

// sourceOf returns the source of a query: two snapshots, or a snapshot and the present state. A query about a
// single snapshot depends on that snapshot and on all changes of the list of snapshots in its workspace.
func sourceOf(ws *snapshot.Workspace, q query, views [2]uint32) source {
	s := source{firstView: views[0], secondView: views[1]}
	_, maxArgs := q.row.Args.WordLimits()
	switch {
	case maxArgs == 1:
		s.changeCount = ws.ChangeCount()
	case len(q.names) == 1:
		s.secondView = ws.View()
		ws.Store().Forest().WithReadLock(func(tx *live.Tx) { s.changeCount = tx.ChangeNumber(ws.View()) })
	}

	return s
}

// A rendering is a call of renderer.render that runs now. Other requests for the file wait for it.
type rendering struct {
	done   chan struct{}
	source source
	err    error // valid after done was closed
}

// renderingDir is the name of a directory in .snapshots in which the lookup of a name renders a file.
//
// During a lookup, the kernel has the directory locked, so that no name in it can be created or removed. So
// no file is rendered during a lookup in .snapshots itself: before the file is rendered, its name is a
// symlink to the same name in renderingDir, which has no other use.
const renderingDir = ".rendering"

// lookupRendered returns a file that may take long to render. While the file's source is the same, it is
// not rendered again, although its name is looked up for every step of `less diff@v1`. Concurrent
// requests for the file wait for one rendering.
func (g *renderer) lookupRendered(ws *snapshot.Workspace, name string, mode uint32, r Request,
	findSource func() source, render func(context.Context, io.Writer) error) (Entry, error) {
	for {
		want := findSource()
		e, ok, other, mine := g.startRendering(ws, name, want, r.mayRender)
		if ok {
			return e, nil
		}
		if !r.mayRender {
			to := renderingDir + "/" + name
			return g.cache.publishLink(ws, to, to)
		}
		if mine != nil {
			return g.render(ws, name, mode, r, mine, render)
		}
		if err := g.awaitRendering(ws, r, other); err != nil {
			return Entry{}, err
		}
		if other.source == want && other.err != nil && !errors.Is(other.err, context.Canceled) {
			return Entry{}, other.err
		}
	}
}

// startRendering returns one of three results. If the present node of a file has the wanted source, it
// returns the node as e, and ok is true. If another request is rendering the file, it returns that rendering
// as other. Otherwise, if start is set, it registers a new rendering, which the caller must run, and returns
// it as mine.
func (g *renderer) startRendering(ws *snapshot.Workspace, name string, want source, start bool) (e Entry, ok bool, other, mine *rendering) {
	root := rootAttr(ws)
	g.cache.mu.Lock()
	defer g.cache.mu.Unlock()

	d := g.cache.dirLocked(ws)
	if n, ok := d.nodes[nodeKey{name, anybody}].(*renderedFile); ok && n.source == want {
		return entryLocked(n, root), true, nil, nil
	}
	if other = d.renderings[name]; other != nil || !start {
		return e, false, other, nil
	}

	mine = &rendering{done: make(chan struct{}), source: want}
	d.renderings[name] = mine

	return e, false, nil, mine
}

// awaitRendering waits for the rendering of another request. It fails with errs.Quota if too many
// requests of the tenant wait.
func (g *renderer) awaitRendering(ws *snapshot.Workspace, r Request, other *rendering) error {
	k := g.cache.tenant(ws)
	if err := countWaiting(&k.waiting); err != nil {
		return err
	}
	defer k.waiting.Add(-1)

	ctx, stop := r.Context()
	defer stop()

	g.queue.kernel.CallBlocking(func() {
		select {
		case <-other.done:
		case <-ctx.Done():
		}
	})

	return ctx.Err()
}

// render runs the rendering mine, and publishes the file.
func (g *renderer) render(ws *snapshot.Workspace, name string, mode uint32, r Request, mine *rendering, render func(context.Context, io.Writer) error) (e Entry, err error) {
	mine.err = context.Canceled // mine.err keeps this value if render panics; then the waiting requests try again
	defer func() {
		g.cache.mu.Lock()
		defer g.cache.mu.Unlock()
		delete(g.cache.dirLocked(ws).renderings, name)
		close(mine.done)
	}()

	mine.err = g.queue.compute(ws, r, func(ctx context.Context) error {
		w := g.cache.newContentWriter(ws)
		if err := render(ctx, w); err != nil {
			w.discard()
			return err
		}

		e = g.cache.publish(ws, name, mode, w, mine.source)
		return nil
	})

	return e, mine.err
}

// ownersMode returns the mode of files with names and contents of other files. If other users may use
// the mount, only the workspace's owner may read them, because some of the other files may be private.
func ownersMode(allowOther bool) uint32 {
	if allowOther {
		return typeFile | 0o400
	}
	return typeFile | 0o444
}
