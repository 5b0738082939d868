package service

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A reacher decides which paths a caller may change that owns neither the workspace nor
// the store, as the kernel would: it must be allowed to search every directory of the
// path, and to write to the last one.
type reacher struct {
	s        *Service
	uid, gid uint32
	dirs     map[dirIn]error
}

// A dirIn is a directory of a state. Paths of one comparison share those of their
// directories.
type dirIn struct {
	state *tree.State
	path  *tree.Path
}

var errOutOfReach = fail.New(fail.Denied, "this has changes in directories that only their owner may change").
	WithHint("name paths")

// reach returns what decides for a caller in the mount; nil if it may change all. Paths
// that it names itself are refused before anything is looked up.
func (s *Service) reach(ctx context.Context, r *Request, paths ...naming.BytePath) (func(path *tree.Path, in ...*tree.State) error, error) {
	if r.Caller.Direct {
		return nil, nil
	}
	owner, _, err := s.owner(ctx, r)
	if owner || err != nil {
		return nil, err
	}
	c := &reacher{s: s, uid: r.Caller.UID, gid: r.Caller.GID, dirs: make(map[dirIn]error)}
	now, err := r.Workspace.State()
	for i := 0; err == nil && i < len(paths); i++ {
		var p *tree.Path
		if p, err = tree.ParsePath(string(paths[i])); err == nil && p != nil {
			err = c.mayChange(p, now)
		}
	}
	return c.mayChange, err
}

func (c *reacher) mayChange(path *tree.Path, in ...*tree.State) error {
	for _, st := range in {
		if path == nil { // the root
			return errOutOfReach
		}
		if err := c.search(st, path.Dir); err != nil {
			return err
		}
		dir, ok, err := c.inode(st, path.Dir)
		if err != nil {
			return err
		}
		if !ok {
			continue // it is not in this state, so something above it changes as well
		}
		if !c.allows(dir, unix.W_OK) {
			return errOutOfReach
		}
		if dir.Mode&unix.S_ISVTX != 0 && dir.UID != c.uid {
			if n, ok, err := c.inode(st, path); err != nil || ok && n.UID != c.uid {
				return errOutOfReach
			}
		}
	}
	return nil
}

// search checks that the caller may search a directory and those above it.
func (c *reacher) search(st *tree.State, dir *tree.Path) error {
	key := dirIn{st, dir}
	if err, ok := c.dirs[key]; ok {
		return err
	}
	var err error
	if dir != nil {
		err = c.search(st, dir.Dir)
	}
	if err == nil {
		n, ok, failed := c.inode(st, dir)
		if err = failed; failed == nil && ok && !c.allows(n, unix.X_OK) {
			err = errOutOfReach
		}
	}
	c.dirs[key] = err
	return err
}

// inode returns what a path leads to; ok is false if nothing is there.
func (c *reacher) inode(st *tree.State, p *tree.Path) (n *tree.Inode, ok bool, err error) {
	path := ""
	if p != nil {
		path = p.String()
	}
	n, err = st.Resolve(c.s.Store.Source(), path)
	if errors.Is(err, tree.ErrNotExist) || errors.Is(err, tree.ErrNotDir) || errors.Is(err, tree.ErrSymlink) {
		return nil, false, nil
	}
	return n, err == nil, err
}

func (c *reacher) allows(n *tree.Inode, want uint32) bool {
	mode := n.Mode
	switch {
	case n.UID == c.uid:
		mode >>= 6
	case n.GID == c.gid:
		mode >>= 3
	}
	return mode&want == want
}
