package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// opHistory compares the path in each snapshot with the one before it, from
// the state that the workspace began with up to now.
func (d *Daemon) opHistory(ctx context.Context, c *control.Call) (any, error) {
	var req api.PathHistory
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	before, err := ws.StateOf("origin")
	if err != nil {
		return nil, err
	}
	infos := ws.List()
	slices.Reverse(infos)
	h := api.History{Path: string(req.Path), Entries: []api.HistoryEntry{}}
	found := d.exists(before, string(req.Path))
	step := func(state *tree.State, e api.HistoryEntry) error {
		action, size, err := d.pathAction(ctx, before, state, string(req.Path))
		if err != nil {
			return err
		}
		before = state
		if action == "" {
			n, err := d.resolve(state, string(req.Path))
			if err != nil || n == nil || !req.All {
				return err
			}
			action, size = "unchanged", n.Size()
		}
		found = true
		e.Action, e.Size = action, size
		h.Entries = append(h.Entries, e)
		return nil
	}
	for i, info := range infos {
		state, err := ws.StateOf(info.Name)
		if err != nil {
			return nil, err
		}
		e := api.HistoryEntry{Snapshot: info.Name, Seq: info.Seq, ID: info.ID, Created: info.Created, Message: info.Message}
		if err := step(state, e); err != nil {
			return nil, err
		}
		c.Progress(control.Progress{What: "comparing snapshots", Done: int64(i + 1), Total: int64(len(infos))})
	}
	now, err := ws.State()
	if err != nil {
		return nil, err
	}
	if err := step(now, api.HistoryEntry{Created: time.Now()}); err != nil {
		return nil, err
	}
	if !found {
		return nil, fail.New(fail.NotFound, "there is no %s, now or in any snapshot", string(req.Path))
	}
	slices.Reverse(h.Entries)
	return h, nil
}

func (d *Daemon) exists(s *tree.State, path string) bool {
	_, err := s.Resolve(d.store.Source(), path)
	return err == nil
}

// pathAction says what happened to a path from a to b, "" when nothing did,
// and its size in b.
func (d *Daemon) pathAction(ctx context.Context, a, b *tree.State, path string) (string, int64, error) {
	before, err := d.resolve(a, path)
	if err != nil {
		return "", 0, err
	}
	after, err := d.resolve(b, path)
	if err != nil {
		return "", 0, err
	}
	switch {
	case before == nil && after == nil:
		return "", 0, nil
	case before == nil:
		return "created", after.Size(), nil
	case after == nil:
		return "deleted", 0, nil
	}
	differs, err := d.differs(ctx, a, b, path)
	if err != nil || !differs {
		return "", 0, err
	}
	return "modified", after.Size(), nil
}

// resolve gives the inode at path, or nil when there is none.
func (d *Daemon) resolve(s *tree.State, path string) (*tree.Inode, error) {
	n, err := s.Resolve(d.store.Source(), path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) {
		return nil, nil
	}
	return n, err
}
