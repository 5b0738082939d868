package daemon

import (
	"context"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// opClone grafts a clone into the workspace and sends git's index for it, which
// the command writes through the mount: the kernel, which may have looked for
// it already, then knows of it.
func (d *Daemon) opClone(ctx context.Context, c *control.Call) (any, error) {
	var req api.Clone
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	base, rest, err := d.graftPoint(ws, req.Path)
	if err != nil {
		return nil, err
	}
	if err := d.mayClone(ws, req.Path, rest); err != nil {
		return nil, err
	}
	now := time.Now().UnixNano()
	made := gitbridge.Meta{Mode: unix.S_IFDIR | 0o777&^req.Umask, UID: c.Peer.UID, GID: c.Peer.GID, Atime: now, Mtime: now}
	finished := d.store.Importing()
	defer finished()
	var clone *gitbridge.Cloned
	c.Progress(control.Progress{What: "cloning"})
	st, err := build(ctx, d.store, made, rest, func(sink gitbridge.Sink) (err error) {
		clone, err = gitbridge.Clone(ctx, gitbridge.CloneOptions{
			URL: req.URL, Branch: req.Branch, Depth: req.Depth, TempDir: d.cfg.Store,
			ImportOptions: gitbridge.ImportOptions{
				Owner: &gitbridge.Owner{UID: c.Peer.UID, GID: c.Peer.GID}, Umask: req.Umask, Progress: importProgress(c.Progress),
			},
		}, sink)
		return err
	})
	if err != nil {
		return nil, err
	}
	r, err := ws.Graft(ctx, snapshot.GraftOptions{Tree: st, Path: base, Caller: caller(c), Command: c.Command})
	if err != nil {
		return nil, err
	}
	s, err := d.newStater(ws, req.Path)
	if err != nil {
		return nil, err
	}
	index, err := clone.Index(s.stat)
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(index); err != nil {
		return nil, err
	}
	d.log.Info("clone", "url", req.URL, "path", req.Path, "files", r.Files, "commit", clone.Commit)
	return api.Cloned{Commit: clone.Commit, Imported: api.Imported{Path: req.Path, Files: r.Files, Bytes: r.Bytes, Undo: r.Undo}}, nil
}

// mayClone refuses a directory that holds anything, as git clone does.
func (d *Daemon) mayClone(ws *snapshot.Workspace, p, rest string) error {
	if rest != "" {
		return nil
	}
	st, err := ws.State()
	if err != nil {
		return err
	}
	n, err := st.Resolve(d.store.Source(), p)
	if err != nil {
		return err
	}
	if n.Dir.Len() > 0 {
		return fail.New(fail.Exists, "%s is there already, and not empty", p)
	}
	return nil
}

// stater says of files below a directory what lstat(2) on the mount would.
type stater struct {
	forest *live.Forest
	dev    uint64
	dirs   map[string]live.NodeID
}

func (d *Daemon) newStater(ws *snapshot.Workspace, root string) (*stater, error) {
	s := &stater{forest: d.store.Forest(), dirs: map[string]live.NodeID{}}
	mounts, err := locate.Mounts()
	if err != nil {
		return nil, err
	}
	m, ok := locate.On(mounts, d.cfg.Mountpoint)
	if !ok {
		return nil, fail.New(fail.Busy, "the mount at %s is ending", d.cfg.Mountpoint)
	}
	major, minor, _ := strings.Cut(m.Device, ":")
	hi, err := strconv.ParseUint(major, 10, 32)
	if err != nil {
		return nil, err
	}
	lo, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return nil, err
	}
	s.dev = unix.Mkdev(uint32(hi), uint32(lo))
	at := ws.Root()
	for _, name := range strings.Split(root, "/") {
		if name == "" || name == "." {
			continue
		}
		a, err := s.forest.Lookup(at, name)
		if err != nil {
			return nil, err
		}
		at = a.ID
	}
	s.dirs["."] = at
	return s, nil
}

func (s *stater) dir(p string) (live.NodeID, error) {
	if id, ok := s.dirs[p]; ok {
		return id, nil
	}
	up, err := s.dir(path.Dir(p))
	if err != nil {
		return 0, err
	}
	a, err := s.forest.Lookup(up, path.Base(p))
	if err != nil {
		return 0, err
	}
	s.dirs[p] = a.ID
	return a.ID, nil
}

func (s *stater) stat(p string) (gitbridge.Stat, error) {
	dir, err := s.dir(path.Dir(p))
	if err != nil {
		return gitbridge.Stat{}, err
	}
	a, err := s.forest.Lookup(dir, path.Base(p))
	if err != nil {
		return gitbridge.Stat{}, err
	}
	return gitbridge.Stat{
		Dev: s.dev, Ino: uint64(a.ID), UID: a.UID, GID: a.GID, Size: a.Size, Mtime: a.Mtime, Ctime: a.Ctime,
	}, nil
}
