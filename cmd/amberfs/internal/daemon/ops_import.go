package daemon

import (
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/feed"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/importer"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// opImport grafts the tree that a command sends into the workspace, at the path
// that the request names. The command reads it wherever it comes from, as its
// user: also from this very mount.
func (d *Daemon) opImport(ctx context.Context, c *control.Call) (any, error) {
	var req api.Import
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	base, rest, err := d.graftPoint(ws, string(req.Path))
	if err != nil {
		return nil, err
	}
	if req.From == api.FromClone {
		if err := d.mayClone(ws, string(req.Path), rest); err != nil {
			return nil, err
		}
	}
	in := bufio.NewReader(c.Input())
	if _, err := in.Peek(1); err != nil { // it may take its time to begin
		return nil, err
	}
	now := time.Now().UnixNano()
	made := gitbridge.Meta{Mode: unix.S_IFDIR | 0o777&^req.Umask, UID: c.Peer.UID, GID: c.Peer.GID, Atime: now, Mtime: now}
	finished := sync.OnceFunc(d.store.Importing())
	defer finished()
	st, err := build(ctx, d.store, made, rest, func(sink gitbridge.Sink) error {
		if req.From == api.FromGit || req.From == api.FromClone || req.From == api.FromTar && c.Peer.UID != 0 {
			sink = owned{sink, c.Peer} // for root, tar keeps the owners
		}
		if base == "" && rest == "" {
			sink = importer.Root{Sink: sink}
		}
		return feed.Read(in, sink)
	})
	if err != nil {
		finished()
		d.giveUp(ctx, err)
		return nil, err
	}
	r, err := ws.Graft(ctx, snapshot.GraftOptions{Tree: st, Path: base, Caller: caller(c), Command: c.Command})
	if err != nil {
		return nil, err
	}
	d.log.Info("import", "from", req.From, "path", string(req.Path), "files", r.Files, "bytes", r.Bytes)
	return api.Imported{Path: string(req.Path), Files: r.Files, Bytes: r.Bytes, Undo: r.Undo}, nil
}

// giveUp gives back the room that an import took before it failed: at once if it
// was for want of room.
func (d *Daemon) giveUp(ctx context.Context, err error) {
	d.store.Abandon()
	if fail.KindOf(explain(err)) != fail.NoSpace {
		return
	}
	if _, err := d.store.GC(ctx, func(int64, int64) {}); err != nil {
		d.log.Warn("gc after an import that did not fit", "error", err)
	}
}

// owned makes everything belong to whoever asked.
type owned struct {
	gitbridge.Sink
	peer control.Peer
}

func (o owned) own(m gitbridge.Meta) gitbridge.Meta {
	m.UID, m.GID = o.peer.UID, o.peer.GID
	return m
}

func (o owned) Dir(p string, m gitbridge.Meta) error { return o.Sink.Dir(p, o.own(m)) }

func (o owned) File(p string, m gitbridge.Meta, size int64, r io.Reader) error {
	return o.Sink.File(p, o.own(m), size, r)
}

func (o owned) Symlink(p, target string, m gitbridge.Meta) error {
	return o.Sink.Symlink(p, target, o.own(m))
}

func (o owned) Special(p string, m gitbridge.Meta, rdev uint32) error {
	return o.Sink.Special(p, o.own(m), rdev)
}

// build makes a sealed tree of what read brings, all of it below the directory
// at, and returns when it is on disk. The caller keeps gc away from it.
func build(ctx context.Context, s *snapshot.Store, root gitbridge.Meta, at string, read func(gitbridge.Sink) error) (*tree.State, error) {
	b := importer.New(ctx, s.Source(), cas.Quick{Store: s.CAS()}, root)
	defer b.Close()
	sink, err := importer.Under(b, at, root)
	if err != nil {
		return nil, err
	}
	if err := read(sink); err != nil {
		return nil, api.GitError(err)
	}
	st, err := b.Finish()
	if err != nil {
		return nil, api.GitError(err)
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
