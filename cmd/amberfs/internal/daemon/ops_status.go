package daemon

import (
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/snapshot"
)

func (d *Daemon) opStatus(_ context.Context, c *control.Call) (any, error) {
	ws, err := d.request(c, nil)
	if err != nil {
		return nil, err
	}
	return d.status(ws), nil
}

// status is that of the workspace and the store, and what only the daemon
// knows.
func (d *Daemon) status(ws *snapshot.Workspace) api.Status {
	return api.Status{
		Status:     ws.Status(),
		Mountpoint: d.cfg.Mountpoint,
		Options:    d.cfg.Options.String(),
		PID:        os.Getpid(),
		Version:    d.cfg.Version,
		Started:    d.started,
		Uptime:     time.Since(d.started).Seconds(),
		Requests:   d.mount.Counters(),
	}
}

// statusControlFile renders .snapshots/status. What counts up by itself is
// left out: a file that is another each time it is looked up is no good to
// read.
func (d *Daemon) statusControlFile(ws *snapshot.Workspace) ([]byte, error) {
	st := d.status(ws)
	st.Requests, st.Uptime = nil, 0
	b, err := json.Marshal(st)
	return append(b, '\n'), err
}

func (d *Daemon) opPolicy(_ context.Context, c *control.Call) (any, error) {
	var req api.Policy
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	if len(req.Set) > 0 {
		p, err := snapshot.ParsePolicy(req.Set)
		if err != nil {
			return nil, err
		}
		if err := ws.SetPolicy(p, caller(c)); err != nil {
			return nil, err
		}
		d.log.Info("policy", "workspace", ws.Name(), "uid", c.Peer.UID, "pid", c.Peer.PID)
	}
	return ws.Policy(), nil
}

func (d *Daemon) opGC(ctx context.Context, c *control.Call) (any, error) {
	r, err := d.store.GC(ctx, func(done, total int64) {
		c.Progress(control.Progress{What: "collecting", Done: done, Total: total, Unit: "bytes"})
	})
	if err != nil {
		return nil, err
	}
	d.log.Info("gc", "removed", r.Removed, "freed", r.FreedBytes)
	return api.GC{Objects: r.Removed, Bytes: r.FreedBytes}, nil
}
