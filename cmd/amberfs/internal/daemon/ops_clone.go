package daemon

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/api"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// opStampIndex fills in what git's index holds of the files of a working tree.
func (d *Daemon) opStampIndex(_ context.Context, c *control.Call) (any, error) {
	var req api.StampIndex
	ws, err := d.request(c, &req)
	if err != nil {
		return nil, err
	}
	const limit = 2 << 30
	index, err := io.ReadAll(io.LimitReader(c.Input(), limit))
	if err != nil {
		return nil, err
	}
	s, err := d.newStater(ws, string(req.Path))
	if err != nil {
		return nil, err
	}
	if err := gitbridge.StampIndex(index, req.SHA256, s.stat); err != nil {
		return nil, err
	}
	_, err = c.Write(index)
	return nil, err
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

// removeLeftovers takes away what clones left that were killed: those under way
// ended with the daemon before.
func removeLeftovers(store string) {
	left, err := filepath.Glob(filepath.Join(store, gitbridge.CloneTemp+"*"))
	if err != nil {
		return
	}
	for _, dir := range left {
		os.RemoveAll(dir)
	}
}
