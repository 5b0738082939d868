package daemon

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (d *Daemon) opRestore(ctx context.Context, c *control.Call) (any, error) {
	var req api.Restore
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	return d.restore(ctx, c, ws, req)
}

func (d *Daemon) restore(ctx context.Context, c *control.Call, ws *snapshot.Workspace, req api.Restore) (any, error) {
	r, err := ws.Restore(ctx, snapshot.RestoreOptions{
		Name: req.Name, Paths: snapshot.PathStrings(req.Paths), DryRun: req.DryRun, Caller: caller(c), Command: c.Command,
	})
	if err != nil {
		return nil, err
	}
	return api.Restored{Snapshot: r.Snapshot, Changed: r.Changed, Paths: changes(r.Paths), Undo: r.Undo, DryRun: req.DryRun}, nil
}

func changes(in []snapshot.PathChange) []api.PathChange {
	out := make([]api.PathChange, 0, len(in))
	for _, p := range in {
		out = append(out, api.PathChange{Path: p.Path, Action: p.Action})
	}
	return out
}

// opRevert restores one path; without a name, from the newest snapshot in
// which it is not what it is now.
func (d *Daemon) opRevert(ctx context.Context, c *control.Call) (any, error) {
	var req api.Revert
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	name := req.Name
	if name == "" {
		if name, err = d.lastDifferent(ctx, ws, string(req.Path)); err != nil {
			return nil, err
		}
	}
	return d.restore(ctx, c, ws, api.Restore{Name: name, Paths: []snapshot.BytePath{req.Path}})
}

// lastDifferent finds the newest snapshot in which path differs from now. The
// state that the workspace began from counts only for paths that were in it:
// a file that no snapshot has ever seen is not deleted by a guess.
func (d *Daemon) lastDifferent(ctx context.Context, ws *snapshot.Workspace, path string) (string, error) {
	now, err := ws.State()
	if err != nil {
		return "", err
	}
	for _, info := range ws.List() {
		then, err := ws.StateOf(info.Name)
		if err != nil {
			return "", err
		}
		differs, err := d.differs(ctx, then, now, path)
		if err != nil {
			return "", err
		}
		if differs {
			return info.Name, nil
		}
	}
	then, err := ws.StateOf("origin")
	if err != nil {
		return "", err
	}
	if n, err := then.Resolve(d.store.Source(), path); err == nil && n.Ino != 1 {
		if differs, err := d.differs(ctx, then, now, path); err != nil || differs {
			return "origin", err
		}
	}
	if !d.exists(now, path) {
		return "", fail.New(fail.NotFound, "there is no %s, now or in any snapshot", path)
	}
	return "", fail.New(fail.NotFound, "%s is as it is now in every snapshot", path).
		WithHint("see `amberfs history %s`", path)
}

// errStop ends a walk that has found what it looked for.
var errStop = errors.New("stop")

// differs says whether anything at or below path differs between two states.
func (d *Daemon) differs(ctx context.Context, a, b *tree.State, path string) (bool, error) {
	err := tree.Diff(ctx, d.store.Source(), a, b, tree.DiffOptions{Paths: diffPaths(path)}, func(c tree.Change) error {
		if c.What&^tree.Mtime == 0 {
			return nil // touched, no more
		}
		return errStop
	})
	if errors.Is(err, errStop) {
		return true, nil
	}
	return false, err
}

// diffPaths limits a comparison to path; "." is everything.
func diffPaths(path string) []string {
	if path == "" || path == "." {
		return nil
	}
	return []string{path}
}
