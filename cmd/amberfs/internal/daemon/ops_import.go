package daemon

import (
	"context"
	"errors"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/importer"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func (d *Daemon) opImportDir(ctx context.Context, c *control.Call) (any, error) {
	return d.importTree(ctx, c, func(req api.Import, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
		o.Skip, o.Owner = nil, nil
		return gitbridge.ReadDir(ctx, req.Dir, sink, gitbridge.DirOptions{
			ImportOptions: o, Exclude: []string{d.cfg.Store, d.cfg.Mountpoint},
		})
	})
}

func (d *Daemon) opImportGit(ctx context.Context, c *control.Call) (any, error) {
	return d.importTree(ctx, c, func(req api.Import, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
		_, err := gitbridge.ReadGit(ctx, gitbridge.GitSource{Repo: req.Repo, Rev: req.Rev}, sink, o)
		return err
	})
}

func (d *Daemon) opImportTar(ctx context.Context, c *control.Call) (any, error) {
	return d.importTree(ctx, c, func(_ api.Import, sink gitbridge.Sink, o gitbridge.ImportOptions) error {
		if c.Peer.UID == 0 {
			o.Owner = nil // as tar does for root
		}
		return gitbridge.ReadTar(ctx, c.Input(), sink, o)
	})
}

// importTree reads a tree from somewhere and grafts it into the workspace, at
// the path that the request names.
func (d *Daemon) importTree(ctx context.Context, c *control.Call, read func(api.Import, gitbridge.Sink, gitbridge.ImportOptions) error) (any, error) {
	var req api.Import
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	base, rest, err := d.graftPoint(ws, req.Path)
	if err != nil {
		return nil, err
	}
	done := api.Imported{Path: req.Path}
	o := gitbridge.ImportOptions{
		Owner:    &gitbridge.Owner{UID: c.Peer.UID, GID: c.Peer.GID},
		Umask:    req.Umask,
		Progress: importProgress(c.Progress),
		Skip: func(path string, reason error) {
			done.Skipped = append(done.Skipped, api.Skipped{Path: path, Reason: reason.Error()})
		},
	}
	now := time.Now().UnixNano()
	made := gitbridge.Meta{Mode: unix.S_IFDIR | 0o777&^req.Umask, UID: c.Peer.UID, GID: c.Peer.GID, Atime: now, Mtime: now}
	finished := d.store.Importing()
	defer finished()
	st, err := build(ctx, d.store, made, rest, func(sink gitbridge.Sink) error { return read(req, sink, o) })
	if err != nil {
		return nil, err
	}
	r, err := ws.Graft(ctx, snapshot.GraftOptions{Tree: st, Path: base, Caller: caller(c), Command: c.Command})
	if err != nil {
		return nil, err
	}
	done.Files, done.Bytes, done.Undo = r.Files, r.Bytes, r.Undo
	d.log.Info("import", "path", req.Path, "files", r.Files, "bytes", r.Bytes)
	return done, nil
}

// build makes a sealed tree of what read brings, all of it below the directory
// at, and returns when it is on disk. The caller keeps gc away from it.
func build(ctx context.Context, s *snapshot.Store, root gitbridge.Meta, at string, read func(gitbridge.Sink) error) (*tree.State, error) {
	b := importer.New(ctx, s.Source(), s.CAS(), root)
	defer b.Close()
	sink, err := importer.Under(b, at, root)
	if err != nil {
		return nil, err
	}
	if err := read(sink); err != nil {
		return nil, importError(err)
	}
	st, err := b.Finish()
	if err != nil {
		return nil, importError(err)
	}
	return st, s.CAS().Commit()
}

// graftPoint splits a path into the deepest directory that the workspace has,
// and the rest, which is to be made.
func (d *Daemon) graftPoint(ws *snapshot.Workspace, p string) (base, rest string, err error) {
	p = strings.Trim(path.Clean("/"+p), "/")
	if top, _, _ := strings.Cut(p, "/"); top == ".snapshots" || top == ".forks" {
		return "", "", fail.New(fail.Usage, "%s is a name that amberfs keeps for itself", top)
	}
	st, err := ws.State()
	if err != nil {
		return "", "", err
	}
	for base = p; base != ""; {
		n, err := st.Resolve(d.store.Source(), base)
		switch {
		case err == nil && n.IsDir():
			return base, rest, nil
		case err == nil:
			return "", "", fail.New(fail.Exists, "%s is there already, and no directory", base)
		case errors.Is(err, tree.ErrNotExist):
		case errors.Is(err, tree.ErrNotDir), errors.Is(err, tree.ErrSymlink):
			return "", "", fail.New(fail.Usage, "%s leads through something that is no directory", p)
		default:
			return "", "", err
		}
		rest = path.Join(path.Base(base), rest)
		if base = path.Dir(base); base == "." {
			base = ""
		}
	}
	return "", rest, nil
}

// importProgress turns a count of files into what a person is shown.
func importProgress(show func(control.Progress)) func(gitbridge.Progress) {
	return func(p gitbridge.Progress) {
		show(control.Progress{What: "importing", Done: p.Files, Unit: "files"})
	}
}

// importError gives the errors of gitbridge their kind.
func importError(err error) error {
	for _, m := range []struct {
		is   error
		kind fail.Kind
	}{
		{gitbridge.ErrNotRepository, fail.NotFound},
		{gitbridge.ErrNoRevision, fail.NotFound},
		{gitbridge.ErrBadRef, fail.Usage},
		{gitbridge.ErrRefMoved, fail.Busy},
		{gitbridge.ErrUnsafe, fail.Failed},
		{gitbridge.ErrHostile, fail.Failed},
		{gitbridge.ErrTooBig, fail.Failed},
	} {
		if errors.Is(err, m.is) {
			return fail.New(m.kind, "%w", err)
		}
	}
	return err
}
