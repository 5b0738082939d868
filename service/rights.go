package service

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Access is the right that an operation needs when it is called through a control file.
// docs/reference/control-files.md has a table of these rights.
type Access int

const (
	// Look is for every user that can look into the workspace's root directory.
	Look Access = iota
	// Owner is for the owner of the workspace. Such operations return or change names or contents of
	// files.
	Owner
	// Add is for every user that can write to the root directory. Such operations create something
	// and do not change what exists.
	Add
	// Change is for the same users as Add; if the root directory has the sticky bit, only for the owner of
	// the workspace. Such operations change or delete snapshots and forks.
	Change
	// Own is for the owner of the store.
	Own
	// Govern is for the owner of the store, in main. Such operations affect all workspaces.
	Govern
	// Socket is for callers of the store's socket.
	Socket
)

// Admit returns an error if the caller may not use the operation. All rights are checked here, except
// for the protections of the policy, which package snapshot enforces.
func (o *Op) Admit(ctx context.Context, r *Request, args any) error {
	if r.Caller.Direct || o.Access == Look {
		return nil
	}

	owner, sticky, err := ownership(ctx, r)
	switch governs := r.Caller.OwnsStore() && !r.Workspace.IsFork(); {
	case err != nil:
		return err
	case o.Access == Socket:
		hint := "run it as the user that mounted, outside of the sandbox"
		if o.Files.Instead != "" {
			hint += ", or use " + o.Files.Instead
		}
		return errs.Fail(errs.Perm, "%s needs the store's socket, which cannot be reached from here", o.Name).WithHint("%s", hint)

	case o.Access == Own && !r.Caller.OwnsStore():
		return errs.Fail(errs.Perm, "only the owner of the store can call %s", o.Name)
	case o.Access == Govern && !governs:
		return errs.Fail(errs.Perm, "only the owner of the store, in main, can call %s", o.Name)
	case o.Access == Owner && !owner, o.Access == Change && sticky && !owner:
		return errs.Fail(errs.Perm, "only the owner of the workspace can call %s", o.Name).
			WithHint("the process that wrote runs as uid %d, whoever opened the file; in gVisor, write it to .snapshots/.call.swp and rename that to call", r.Caller.UID)
	case governs || o.May == nil:
		return nil
	}

	return o.May(r, args)
}

// mayFork refuses arguments that name a snapshot on a remote.
func mayFork(_ *Request, args any) error {
	if Fetches(args) {
		return errs.Fail(errs.Perm, "only the owner of the store, in main, can begin a fork from a remote")
	}
	return nil
}

// mayPush limits pushes of callers other than the owner of the store. The daemon lends such callers its
// credentials only for the remote that main's policy names, and only to add snapshots there.
func mayPush(r *Request, args any) error {
	a := args.(Push)
	allowed := r.Workspace.Store().Main().Policy().Push.Remote
	switch {
	case allowed == "":
		return errs.Fail(errs.Perm, "the policy of the store allows only its owner to push").
			WithHint(`the owner can allow it with: echo '{"push":{"remote":"NAME"}}' | amberfs policy -`)
	case a.Remote != "" && a.Remote != allowed:
		return errs.Fail(errs.Perm, "the policy of the store allows pushes to %s only", allowed)
	case a.Force, a.Full:
		return errs.Fail(errs.Perm, "only the owner of the store, in main, can replace snapshots on a remote")
	}

	return nil
}

// ownership reports whether the caller owns the workspace or the store, and whether the workspace's root
// directory has the sticky bit.
func ownership(ctx context.Context, r *Request) (owner, sticky bool, err error) {
	var a live.Attr
	err = cas.Retry(ctx, func() (err error) {
		a, err = r.Workspace.Store().Forest().GetAttr(r.Workspace.Root())
		return err
	})
	if err != nil {
		return false, false, err
	}

	return a.UID == r.Caller.UID || r.Caller.OwnsStore(), a.Mode&0o1000 != 0, nil
}

// A Program is a process whose root and working directory the daemon may read.
type Program struct {
	PID     int
	Command string
}

// checkInside returns an error for a fork that cannot be deleted without force: a run whose program still
// runs, or a fork in which a program has its root or working directory.
func (fs *forks) checkInside(r *Request, a DeleteFork) error {
	if !r.Workspace.IsFork() && fs.joined(a.Name) > 0 {
		return errs.Fail(errs.Busy, "the run %s is running", a.Name).WithHint("end its program first")
	}
	f, err := r.Workspace.Forks().Named(a.Name)
	if err != nil {
		return nil // deleteFork reports a fork that does not exist
	}

	// The fork and all forks in it are deleted together.
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

	inside := fs.inside(views, a.Rmdir)
	if len(inside) == 0 {
		return nil
	}

	text := plural(len(inside), "process has", "processes have") + " the fork " + a.Name + " as root or working directory"
	if !confinedToFork(r) { // callers confined to a fork must not learn about other processes
		text += ":"
		for _, p := range inside {
			text += fmt.Sprintf(" %s (process %d)", p.Command, p.PID)
		}
	}

	return errs.Fail(errs.Busy, "%s", text).WithHint("end them first, or use `amberfs fork --delete --force %s`", a.Name)
}
