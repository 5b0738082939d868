package service

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Access is the right that an operation needs when it is called through a control file.
// docs/reference/control-files.md has the same as a table.
type Access int

const (
	// Look: a user that can look into the workspace's root directory.
	Look Access = iota
	// Read returns names or contents of files: the owner of the workspace.
	Read
	// Add creates something and changes nothing that exists: a user that can write to
	// the root directory.
	Add
	// Change can change files of others: as Add, but only the owner if the root directory
	// has the sticky bit.
	Change
	// Own: the owner of the store.
	Own
	// Govern affects all workspaces: the owner of the store, in main.
	Govern
	// Socket: a caller of the store's socket only.
	Socket
)

func (s *Service) Admit(ctx context.Context, r *Request, args any) error {
	return s.admit(ctx, r, OpOf(args), args)
}

// admit is the one place that checks rights, besides the policy in package snapshot.
func (s *Service) admit(ctx context.Context, r *Request, o *Op, args any) error {
	if o.Mutates && r.Caller.Direct && s.ReadOnly() { // in the mount the kernel refuses
		return fail.New(fail.Denied, "the mount at %s is read-only", s.Mountpoint).WithHint("mount it without ro")
	}
	if r.Caller.Direct || o.Access == Look {
		return nil
	}
	owner, sticky, err := s.owner(ctx, r)
	switch governs := r.Caller.OwnsStore() && !r.Workspace.IsFork(); {
	case err != nil:
		return err
	case o.Access == Socket:
		hint := "run it as the user that mounted, outside of the sandbox"
		if o.Instead != "" {
			hint += ", or use " + o.Instead
		}
		return fail.New(fail.Denied, "%s needs the store's socket, which cannot be reached from here", o.Name).WithHint("%s", hint)
	case o.Access == Own && !r.Caller.OwnsStore():
		return fail.New(fail.Denied, "only the owner of the store can call %s", o.Name)
	case o.Access == Govern && !governs:
		return fail.New(fail.Denied, "only the owner of the store, in main, can call %s", o.Name)
	case o.Access == Read && !owner, o.Access == Change && sticky && !owner:
		return fail.New(fail.Denied, "only the owner of the workspace can call %s", o.Name)
	case governs:
		return nil
	}
	switch a := args.(type) {
	case Fork:
		return beginsHere(a.Snapshot)
	case Claim:
		return beginsHere(a.From)
	case Push:
		return s.mayPush(a)
	}
	return nil
}

// beginsHere refuses a fork that begins from a remote.
func beginsHere(from string) error {
	if isRemote(from) {
		return fail.New(fail.Denied, "only the owner of the store, in main, can begin a fork from a remote")
	}
	return nil
}

// mayPush limits pushes of callers other than the owner of the store. The daemon lends
// them its credentials for the remote that main's policy names, and only to add to it.
func (s *Service) mayPush(a Push) error {
	allowed := s.Store.Main().Policy().Push.Remote
	switch {
	case allowed == "":
		return fail.New(fail.Denied, "the policy of the store allows only its owner to push").
			WithHint(`the owner can allow it with: echo '{"push":{"remote":"NAME"}}' | amberfs policy -`)
	case a.Remote != "" && a.Remote != allowed:
		return fail.New(fail.Denied, "the policy of the store allows pushes to %s only", allowed)
	case a.Force, a.Full:
		return fail.New(fail.Denied, "only the owner of the store, in main, can replace snapshots on a remote")
	}
	return nil
}

// owner reports whether the caller owns the workspace or the store, and whether it is sticky.
func (s *Service) owner(ctx context.Context, r *Request) (owner, sticky bool, err error) {
	var a live.Attr
	err = live.Await(ctx, func() (err error) {
		a, err = s.Store.Forest().GetAttr(r.Workspace.Root())
		return err
	})
	if err != nil {
		return false, false, Explain(err)
	}
	return a.UID == r.Caller.UID || r.Caller.OwnsStore(), a.Mode&0o1000 != 0, nil
}

// A reacher decides which paths a caller without ownership may change, as the kernel would: by
// the rights to search the directories and to write to the last one.
type reacher struct {
	s        *Service
	uid, gid uint32
	dirs     map[dirIn]error
}

// A dirIn is a directory of a state.
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

// A Program is a process that the daemon may look into.
type Program struct {
	PID     int
	Command string
}

// checkInside refuses to delete a fork that programs have as root or working directory.
func (s *Service) checkInside(r *Request, name string) error {
	f, err := r.Workspace.Forks().Named(name)
	if err != nil || s.Inside == nil {
		return nil // it is told where the fork is ended
	}
	var views []uint32
	for all := []*snapshot.Workspace{f}; len(all) > 0; {
		f, all = all[0], all[1:]
		views = append(views, f.View())
		for _, in := range f.Forks().List() {
			if sub, err := f.Forks().Named(in.Name); err == nil {
				all = append(all, sub)
			}
		}
	}
	inside := s.Inside(views)
	if len(inside) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d process(es) have the fork %s as root or working directory", len(inside), name)
	if !boundary(r) { // a caller in a fork learns nothing of other processes
		text += ":"
		for _, p := range inside {
			text += fmt.Sprintf(" %s (process %d)", p.Command, p.PID)
		}
	}
	return fail.New(fail.Busy, "%s", text).WithHint("end them first, or use --force")
}
