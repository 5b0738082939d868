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
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	gitDir   = "git"      // the store's own repository
	gitCache = "gitcache" // what is known of repositories
)

func (d *Daemon) opExportGit(ctx context.Context, c *control.Call) (any, error) {
	var req api.ExportGit
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	r, err := d.exportGit(ctx, ws, gitbridge.ExportOptions{
		Repo: req.Repo, Ref: req.Ref, Message: req.Message, Gitignore: req.GitIgnore, NoParent: req.NoParent,
		Progress: func(p gitbridge.Progress) {
			c.Progress(control.Progress{What: "exporting", Done: p.Files, Unit: "files"})
		},
	}, req.Name)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// exportGit writes a snapshot as a commit, on top of the newest one before it
// that was exported.
func (d *Daemon) exportGit(ctx context.Context, ws *snapshot.Workspace, o gitbridge.ExportOptions, name string) (*gitbridge.Result, error) {
	info, err := ws.WaitSealed(ctx, name)
	if err != nil {
		return nil, err
	}
	if o.State, err = ws.StateOf(info.Name); err != nil {
		return nil, err
	}
	o.Source = d.store.Source()
	o.Info = gitbridge.Info{Name: info.Name, ID: info.ID, Message: info.Message, Time: info.Created}
	o.CacheDir = filepath.Join(d.cfg.Store, gitCache)
	for _, before := range ws.List() { // newest first
		if before.Seq >= info.Seq || before.GitCommit == "" {
			continue
		}
		st, err := ws.StateOf(before.Name)
		if err != nil {
			continue // deleted meanwhile
		}
		o.Info.Parent = before.GitCommit
		o.Base = &gitbridge.Base{State: st, Commit: before.GitCommit}
		break
	}
	r, err := gitbridge.Export(ctx, o)
	if err != nil {
		return nil, importError(err)
	}
	d.log.Info("export", "snapshot", info.Name, "repository", o.Repo, "ref", r.Ref, "commit", r.Commit)
	if err := ws.Amend(info.Name, func(i *snapshot.Info) { i.GitCommit = r.Commit }); err != nil {
		d.log.Warn("writing down the commit of a snapshot", "snapshot", info.Name, "error", err)
	}
	return r, nil
}

// exportControlFile does what was written to .snapshots/export: a snapshot, and
// perhaps a ref.
func (d *Daemon) exportControlFile(ws *snapshot.Workspace, line string, _ live.Caller) ([]byte, error) {
	words := strings.Fields(line)
	if len(words) < 1 || len(words) > 2 {
		return nil, fmt.Errorf("%w: write a snapshot's name, and perhaps a ref after it", snapshot.ErrInvalid)
	}
	o := gitbridge.ExportOptions{Repo: filepath.Join(d.cfg.Store, gitDir), Create: true}
	if len(words) == 2 {
		o.Ref = words[1]
	}
	r, err := d.exportGit(context.Background(), ws, o, words[0])
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
	return gitbridge.WriteTar(ctx, c, d.store.Source(), st, gitbridge.TarOptions{
		Progress: func(p gitbridge.Progress) {
			c.Progress(control.Progress{What: "exporting", Done: p.Files, Unit: "files"})
		},
	})
}
