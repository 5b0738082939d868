package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (d *Daemon) opDiff(ctx context.Context, c *control.Call) (any, error) {
	var req api.Diff
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	a, b, err := states(ws, req.A, req.B)
	if err != nil {
		return nil, err
	}
	defer d.store.Hold(a)()
	defer d.store.Hold(b)()
	o := diff.Options{Binary: req.Binary, Width: req.Width}
	for _, p := range req.Paths {
		if p == "." {
			o.Paths = nil
			break
		}
		o.Paths = append(o.Paths, string(p))
	}
	if req.Format == "json" {
		return d.diffFiles(ctx, a, b, o)
	}
	return api.DiffResult{}, d.writeDiff(ctx, c, a, b, o, req.Format)
}

// states finds the two sides of a comparison; b == "" is now.
func states(ws *snapshot.Workspace, a, b string) (sa, sb *tree.State, err error) {
	if sa, err = ws.StateOf(a); err != nil {
		return nil, nil, err
	}
	if b == "" {
		sb, err = ws.State()
	} else {
		sb, err = ws.StateOf(b)
	}
	return sa, sb, err
}

func (d *Daemon) writeDiff(ctx context.Context, w io.Writer, a, b *tree.State, o diff.Options, format string) error {
	src := d.store.Source()
	switch format {
	case "", "patch":
		_, err := diff.Write(ctx, w, src, a, b, o)
		return err
	case "stat":
		return diff.Stat(ctx, w, src, a, b, o)
	case "name-status":
		return diff.NameStatus(ctx, w, src, a, b, o)
	}
	return fail.New(fail.Usage, "there is no diff format %q", format)
}

// diffControlFile renders diff@A..B and stat@A..B.
func (d *Daemon) diffControlFile(ctx context.Context, ws *snapshot.Workspace, a, b string, stat bool) ([]byte, error) {
	sa, sb, err := states(ws, a, b)
	if err != nil {
		return nil, err
	}
	defer d.store.Hold(sa)()
	defer d.store.Hold(sb)()
	format := "patch"
	if stat {
		format = "name-status"
	}
	var out rendered
	if err := d.writeDiff(ctx, &out, sa, sb, diff.Options{}, format); err != nil {
		return nil, err
	}
	return bytes.Join(out.pieces, nil), nil
}

const (
	// maxRendered bounds what is rendered at once, for the memory of all. A
	// command sends on what it has.
	maxRendered = 64 << 20
	renderPiece = 1 << 20
)

// rendered keeps what is written to it, in pieces: a buffer that grows would need
// several times the memory.
type rendered struct {
	pieces [][]byte
	size   int
}

func (r *rendered) Write(p []byte) (int, error) {
	if r.size += len(p); r.size > maxRendered {
		return 0, fmt.Errorf("%w: the diff has more than %d MiB; `amberfs diff` has no limit", live.ErrTooBig, maxRendered>>20)
	}
	if n := len(r.pieces); n > 0 && cap(r.pieces[n-1])-len(r.pieces[n-1]) >= len(p) {
		r.pieces[n-1] = append(r.pieces[n-1], p...)
	} else {
		r.pieces = append(r.pieces, append(make([]byte, 0, max(min(renderPiece, 4*r.size), len(p))), p...))
	}
	return len(p), nil
}

// diffFiles lists the changed files for --json.
func (d *Daemon) diffFiles(ctx context.Context, a, b *tree.State, o diff.Options) (any, error) {
	files, err := diff.Files(ctx, d.store.Source(), a, b, o)
	if err != nil {
		return nil, err
	}
	r := api.DiffResult{Files: len(files), Paths: make([]api.DiffedFile, 0, len(files))}
	for _, f := range files {
		j := api.DiffedFile{Status: string(rune(f.Status)), Path: f.Path}
		if f.Status == diff.Renamed {
			j.From, j.Score = f.OldPath, f.Similarity
		}
		r.Paths = append(r.Paths, j)
	}
	return r, nil
}
