package daemon

import (
	"context"
	"os"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

func (d *Daemon) hello() control.Hello {
	return control.Hello{PID: os.Getpid(), Version: d.cfg.Version, Store: d.cfg.Store, Mountpoint: d.cfg.Mountpoint}
}

func (d *Daemon) opSnapshot(ctx context.Context, c *control.Call) (any, error) {
	var req api.Snapshot
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	info, err := ws.Capture(ctx, snapshot.CaptureOptions{
		Name: req.Name, Message: req.Message, Labels: req.Labels, Expires: req.Expires, Pinned: req.Pin,
		Caller: caller(c), Command: c.Command,
	})
	if err != nil {
		return nil, err
	}
	if !req.Wait {
		return info, nil
	}
	c.Progress(control.Progress{What: "sealing " + info.Name})
	sealed, err := ws.WaitSealed(ctx, info.Name)
	if err != nil {
		return nil, fail.New(fail.KindOf(explain(err)), "snapshot %s is captured, but not sealed: %w", info.Name, err)
	}
	return sealed, nil
}

// request decodes the arguments and finds the workspace.
func (d *Daemon) request(c *control.Call, args any) (*snapshot.Workspace, error) {
	if args != nil {
		if err := c.Decode(args); err != nil {
			return nil, err
		}
	}
	return d.workspace(c)
}

func (d *Daemon) opList(_ context.Context, c *control.Call) (any, error) {
	ws, err := d.request(c, nil)
	if err != nil {
		return nil, err
	}
	return api.List{Snapshots: ws.List()}, nil
}

func (d *Daemon) opShow(_ context.Context, c *control.Call) (any, error) {
	var req api.Name
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	return ws.Find(req.Name)
}

func (d *Daemon) opRename(_ context.Context, c *control.Call) (any, error) {
	var req api.Rename
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	old, err := ws.Find(req.From)
	if err != nil {
		return nil, err
	}
	if err := ws.Rename(old.Name, req.To, caller(c)); err != nil {
		return nil, err
	}
	return ws.Find(req.To)
}

// opPin protects snapshots from deletion and retention, or ends that. When one
// of the names cannot be found, nothing is changed.
func (d *Daemon) opPin(_ context.Context, c *control.Call) (any, error) {
	var req api.Pin
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	done := api.Pin{Names: []string{}, Pin: req.Pin}
	for _, n := range req.Names {
		info, err := ws.Find(n)
		if err != nil {
			return nil, err
		}
		done.Names = append(done.Names, info.Name)
	}
	for _, n := range done.Names {
		if err := ws.Amend(n, func(i *snapshot.Info) { i.Pinned = req.Pin }); err != nil {
			return nil, err
		}
	}
	return done, nil
}

// opRemove deletes all of the snapshots or, when one of the names cannot be
// found, none.
func (d *Daemon) opRemove(_ context.Context, c *control.Call) (any, error) {
	var req api.Names
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	var names []string
	seen := map[string]bool{}
	for _, n := range req.Names {
		info, err := ws.Find(n)
		if err != nil {
			return nil, err
		}
		if !seen[info.Name] {
			seen[info.Name] = true
			names = append(names, info.Name)
		}
	}
	done := api.Names{Names: []string{}}
	for _, n := range names {
		if err := ws.Delete(n, caller(c)); err != nil {
			return nil, err
		}
		done.Names = append(done.Names, n)
	}
	return done, nil
}
