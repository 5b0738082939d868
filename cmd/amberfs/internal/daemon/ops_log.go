package daemon

import (
	"context"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/snapshot/events"
)

func (d *Daemon) opLog(ctx context.Context, c *control.Call) (any, error) {
	var req api.Log
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	send := func(e events.Event) error {
		if !concerns(e, string(req.Path)) {
			return nil
		}
		return c.Item(e)
	}
	if err := d.events.Flush(); err != nil {
		d.log.Warn("writing events", "error", err)
	}
	if req.Follow {
		return nil, d.events.Follow(ctx, ws.View(), 0, send)
	}
	return nil, d.events.Read(ws.View(), 0, send)
}

// concerns says whether an event happened at or below a path, or moved
// something away from there.
func concerns(e events.Event, path string) bool {
	if path == "" || path == "." {
		return true
	}
	if e.Action == events.Renamed && below(e.From, path) {
		return true
	}
	return below(e.Path, path)
}

func below(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
