package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/objects"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// gitDir is the store's own repository.
const gitDir = "git"

// opOpen opens a snapshot to a command, which reads its objects until it hangs
// up. Git is the command's: it runs as its user, in its environment, and the
// repository may lie in this very mount.
func (d *Daemon) opOpen(ctx context.Context, c *control.Call) (any, error) {
	var req api.Name
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	c.Progress(control.Progress{What: "sealing " + req.Name})
	e, err := d.exportable(ctx, ws, req.Name)
	if err != nil {
		return nil, err
	}
	defer d.store.Hold(e.state)()
	out := api.Opened{Info: e.info, State: e.id, Parents: e.parents}
	for _, b := range e.bases {
		defer d.store.Hold(b.state)()
		out.Bases = append(out.Bases, api.Base{State: b.id, Commits: b.info.GitCommits})
	}
	if err := c.Item(out); err != nil {
		return nil, err
	}
	return nil, objects.Serve(c.Input(), c, d.store.CAS().Get)
}

// opExported writes down what a snapshot was exported as.
func (d *Daemon) opExported(_ context.Context, c *control.Call) (any, error) {
	var req api.Exported
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	d.exported(ws, req)
	return nil, nil
}

func (d *Daemon) exported(ws *snapshot.Workspace, r api.Exported) {
	d.log.Info("export", "snapshot", r.Name, "repository", r.Repo, "ref", r.Ref, "commit", r.Commit)
	if err := ws.Amend(r.Name, func(i *snapshot.Info) { i.Exported(r.Commit) }); err != nil {
		d.log.Warn("writing down the commit of a snapshot", "snapshot", r.Name, "error", err)
	}
}

// sealed is a snapshot that is sealed.
type sealed struct {
	info  snapshot.Info
	state *tree.State
	id    string
}

// exportable is a snapshot with what an export of it may build upon.
type exportable struct {
	sealed
	parents []string // commits of snapshots before, the nearest first
	bases   []sealed // exported snapshots, the nearest first
}

const (
	maxParents = 1000
	maxBases   = 16
)

func (d *Daemon) exportable(ctx context.Context, ws *snapshot.Workspace, name string) (*exportable, error) {
	info, err := ws.WaitSealed(ctx, name)
	if err != nil {
		return nil, err
	}
	e := &exportable{}
	if e.sealed, err = stateOf(ws, info); err != nil {
		return nil, err
	}
	for ; ws != nil; ws, info = forkPoint(ws) {
		for _, before := range line(ws, info) {
			for i := len(before.GitCommits) - 1; i >= 0 && len(e.parents) < maxParents; i-- {
				e.parents = append(e.parents, before.GitCommits[i])
			}
			if before.Sealed && len(before.GitCommits) > 0 && len(e.bases) < maxBases {
				if s, err := stateOf(ws, before); err == nil { // else it was deleted meanwhile
					e.bases = append(e.bases, s)
				}
			}
		}
	}
	// Nothing is closer to a snapshot than itself.
	if len(e.info.GitCommits) > 0 {
		e.bases = append([]sealed{e.sealed}, e.bases...)
	}
	return e, nil
}

func stateOf(ws *snapshot.Workspace, info snapshot.Info) (s sealed, err error) {
	s.info = info
	if s.state, err = ws.StateOf(info.Name); err != nil {
		return s, err
	}
	id, ok := s.state.ID()
	if !ok {
		return s, fmt.Errorf("snapshot %s is not sealed", info.Name)
	}
	s.id = id.String()
	return s, nil
}

// forkPoint is where a workspace was forked from: the snapshots before its own
// are those of its parent, up to one that is given as if it came right after.
func forkPoint(ws *snapshot.Workspace) (*snapshot.Workspace, snapshot.Info) {
	up := ws.Parent()
	if up == nil {
		return nil, snapshot.Info{}
	}
	origin, err := ws.Find("origin")
	if err != nil {
		return nil, origin
	}
	for _, i := range up.List() { // newest first
		if i.Name == origin.Parent || origin.Parent == "" && !i.Created.After(origin.Created) {
			return up, snapshot.Info{Seq: i.Seq + 1, Parent: i.Name}
		}
	}
	return nil, origin
}

// line lists the snapshots before one: as long as it is known the one that it
// was made on top of, which after a restore is not the one before in time, then
// all that are older.
func line(ws *snapshot.Workspace, info snapshot.Info) []snapshot.Info {
	list := ws.List() // newest first
	byName := make(map[string]snapshot.Info, len(list))
	for _, i := range list {
		byName[i.Name] = i
	}
	var out []snapshot.Info
	seen := map[uint64]bool{info.Seq: true}
	add := func(i snapshot.Info) {
		if !seen[i.Seq] && i.Seq < info.Seq {
			seen[i.Seq] = true
			out = append(out, i)
		}
	}
	for at := info; ; {
		up, ok := byName[at.Parent]
		if !ok || up.Seq >= at.Seq {
			break
		}
		add(up)
		at = up
	}
	for _, i := range list {
		add(i)
	}
	return out
}

// exportControlFile does what was written to .snapshots/export: a snapshot, and
// perhaps a ref.
func (d *Daemon) exportControlFile(ctx context.Context, ws *snapshot.Workspace, line string, _ live.Caller) ([]byte, error) {
	words := strings.Fields(line)
	if len(words) < 1 || len(words) > 2 {
		return nil, fmt.Errorf("%w: write a snapshot's name, and perhaps a ref after it", snapshot.ErrInvalid)
	}
	o := gitbridge.ExportOptions{Repo: filepath.Join(d.cfg.Store, gitDir), Create: true}
	if len(words) == 2 {
		o.Ref = words[1]
	}
	r, err := d.exportOwn(ctx, ws, o, words[0])
	if errors.Is(err, gitbridge.ErrBadRef) {
		return nil, fmt.Errorf("%w: %w", snapshot.ErrInvalid, err)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(struct {
		OK      bool   `json:"ok"`
		Name    string `json:"name"`
		Commit  string `json:"commit"`
		Ref     string `json:"ref"`
		Skipped int    `json:"skipped"`
	}{true, words[0], r.Commit, r.Ref, len(r.Skipped)})
}

// exportOwn exports to the store's own repository, which no mount of this daemon
// has in it.
func (d *Daemon) exportOwn(ctx context.Context, ws *snapshot.Workspace, o gitbridge.ExportOptions, name string) (*gitbridge.Result, error) {
	e, err := d.exportable(ctx, ws, name)
	if err != nil {
		return nil, err
	}
	defer d.store.Hold(e.state)()
	o.Source, o.State, o.CacheDir = d.store.Source(), e.state, filepath.Join(d.cfg.Store, api.GitCache)
	o.Info = api.GitInfo(e.info, e.parents)
	for _, b := range e.bases {
		defer d.store.Hold(b.state)()
		for _, commit := range b.info.GitCommits {
			o.Bases = append(o.Bases, gitbridge.Base{Commit: commit, State: func() (*tree.State, error) { return b.state, nil }})
		}
	}
	r, err := gitbridge.Export(ctx, o)
	if err != nil {
		return nil, api.GitError(err)
	}
	d.exported(ws, api.Exported{Name: e.info.Name, Repo: o.Repo, Ref: r.Ref, Commit: r.Commit})
	return r, nil
}

func (d *Daemon) opExportTar(ctx context.Context, c *control.Call) (any, error) {
	var req api.Name
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	st, err := ws.StateOf(req.Name)
	if err != nil {
		return nil, err
	}
	defer d.store.Hold(st)()
	return gitbridge.WriteTar(ctx, c, d.store.Source(), st, gitbridge.TarOptions{
		Progress: func(p gitbridge.Progress) {
			c.Progress(control.Progress{What: "exporting", Done: p.Files, Unit: "files"})
		},
	})
}
