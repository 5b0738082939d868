package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

func (d *Daemon) opFork(ctx context.Context, c *control.Call) (any, error) {
	var req api.Fork
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	if _, err := ws.Fork(ctx, req.Snapshot, req.Name, caller(c)); err != nil {
		return nil, err
	}
	path := d.cfg.Mountpoint
	for _, name := range append(c.Workspace, req.Name) {
		path = filepath.Join(path, ".forks", name)
	}
	return api.Forked{Name: req.Name, Snapshot: req.Snapshot, Path: path}, nil
}

func (d *Daemon) opEndFork(_ context.Context, c *control.Call) (any, error) {
	var req api.Name
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	last, err := ws.EndFork(req.Name, caller(c))
	if err != nil {
		return nil, err
	}
	return api.Ended{Name: req.Name, Snapshot: last.Name}, nil
}

func (d *Daemon) opForks(_ context.Context, c *control.Call) (any, error) {
	ws, err := d.request(c, nil)
	if err != nil {
		return nil, err
	}
	return api.Forks{Forks: ws.Forks()}, nil
}

func (d *Daemon) opPromote(ctx context.Context, c *control.Call) (any, error) {
	var req api.Promote
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	r, err := ws.Promote(ctx, req.Fork, snapshot.PromoteOptions{
		Ours: req.Ours, Theirs: req.Theirs, Caller: caller(c), Command: c.Command,
	})
	done := api.Promoted{Fork: req.Fork, Changed: r.Changed, Paths: changes(r.Paths), Conflicts: r.Conflicts, Undo: r.Undo}
	if err != nil && len(r.Conflicts) > 0 {
		return nil, &control.ResultError{
			Result: done,
			Err: fail.New(fail.Failed, "%d path(s) changed in the fork and in the workspace; nothing is touched", len(r.Conflicts)).
				WithHint("decide with --ours or --theirs"),
		}
	}
	if err != nil {
		return nil, err
	}
	return done, nil
}

// maxFreeze bounds what a command may ask for.
const maxFreeze = 10 * time.Minute

func (d *Daemon) opFreeze(_ context.Context, c *control.Call) (any, error) {
	var req api.Freeze
	if err := c.Decode(&req); err != nil {
		return nil, err
	}
	if req.For <= 0 || req.For > maxFreeze {
		return nil, fail.New(fail.Usage, "a freeze lasts more than 0 and at most %s", maxFreeze)
	}
	until := time.Now().Add(req.For)
	if !d.store.Forest().Freeze(req.For) {
		return nil, fail.New(fail.Busy, "changes are held back already").WithHint("let them go on with `amberfs thaw`")
	}
	d.log.Info("freeze", "for", req.For, "uid", c.Peer.UID, "pid", c.Peer.PID)
	return api.Frozen{Until: until}, nil
}

func (d *Daemon) opThaw(_ context.Context, c *control.Call) (any, error) {
	thawed := d.store.Forest().Thaw()
	d.log.Info("thaw", "uid", c.Peer.UID, "pid", c.Peer.PID)
	return map[string]bool{"thawed": thawed}, nil
}
