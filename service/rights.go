package service

import (
	"context"
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Access says which callers may call an operation through a control file. docs/reference/control-files.md has a table
// of these rights. The constants describe the callers. "The root directory" is the root directory of the workspace.
type Access int

const (
	// AccessViewer: every user that can read the root directory.
	AccessViewer Access = iota
	// AccessOwner: the owner of the workspace. Such operations return or change names or contents of
	// files.
	AccessOwner
	// AccessWriter: every user that can write to the root directory. Such operations create snapshots,
	// forks and the like, and do not change existing ones.
	AccessWriter
	// AccessChanger: as AccessWriter but, if the root directory has the sticky bit, only the owner of the
	// workspace. Such operations change or delete snapshots and forks.
	AccessChanger
	// AccessStoreOwner: the owner of the store.
	AccessStoreOwner
	// AccessStoreOwnerInMain: the owner of the store, by a control file of main. Such operations affect all
	// workspaces.
	AccessStoreOwnerInMain
	// AccessSocket: no caller of a control file. Only the store's socket has such operations.
	AccessSocket
)

// Admit returns an error if the caller may not use an operation. It checks all rights, except for the
// protections of the policy, which package snapshot enforces.
func (s *Service) Admit(ctx context.Context, r *Request, o *Op, args any) error {
	r.core = s.core
	if r.Caller.ViaSocket || o.Access == AccessViewer {
		return nil
	}

	isOwner, isSticky, err := s.ownership(ctx, r)
	switch isOwnerInMain := r.Caller.OwnsStore() && !r.Workspace.IsFork(); {
	case err != nil:
		return err
	case o.Access == AccessSocket:
		hint := "run it as the user that mounted, outside of the sandbox"
		if o.ControlFiles.Alternative != "" {
			hint += ", or use " + o.ControlFiles.Alternative
		}
		return errs.Fail(errs.Perm, "%s needs the store's socket, which cannot be reached from here", o.Name).WithHint("%s", hint)

	case o.Access == AccessStoreOwner && !r.Caller.OwnsStore():
		return errs.Fail(errs.Perm, "only the owner of the store can call %s", o.Name)
	case o.Access == AccessStoreOwnerInMain && !isOwnerInMain:
		return errs.Fail(errs.Perm, "only the owner of the store, in main, can call %s", o.Name)
	case o.Access == AccessOwner && !isOwner, o.Access == AccessChanger && isSticky && !isOwner:
		return errs.Fail(errs.Perm, "only the owner of the workspace can call %s", o.Name).
			WithHint("the process that wrote runs as uid %d, whoever opened the file; in gVisor, write it to .snapshots/.call.swp and rename that to call", r.Caller.UID)
	case isOwnerInMain || o.CheckArgs == nil:
		return nil
	}

	return o.CheckArgs(r, args)
}

// checkForkArgs returns an error for arguments that name a snapshot on a remote.
func checkForkArgs(_ *Request, args any) error {
	if argsNameRemote(args) {
		return errs.Fail(errs.Perm, "only the owner of the store, in main, can begin a fork from a remote")
	}
	return nil
}

// checkPushArgs returns an error for a push that only the owner of the store may make. The daemon lends other
// callers its credentials only for the remote that main's policy names, and only to add snapshots there.
func checkPushArgs(r *Request, args any) error {
	a := args.(Push)
	allowed := r.main.Policy().Push.Remote
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
func (s *Service) ownership(ctx context.Context, r *Request) (isOwner, isSticky bool, err error) {
	var a live.Attr
	err = cas.Retry(ctx, func() (err error) {
		a, err = s.Store.Forest().GetAttr(r.Workspace.Root())
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

// checkNoPrograms returns an error for a fork that cannot be deleted without force: a run whose program still
// runs, or a fork in which a program has its root or working directory.
func (fs *forks) checkNoPrograms(r *Request, a DeleteFork) error {
	if !r.Workspace.IsFork() && fs.joinedPrograms(a.Name) > 0 {
		return errs.Fail(errs.Busy, "the run %s is running", a.Name).WithHint("end its program first")
	}
	f, err := r.Workspace.Forks().Named(a.Name)
	if err != nil {
		return nil // forks.delete reports a fork that does not exist
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

	inside := fs.programsInside(views, a.Rmdir)
	if len(inside) == 0 {
		return nil
	}

	text := plural(len(inside), "process has", "processes have") + " the fork " + a.Name + " as root or working directory"
	if !confinedToFork(r) { // only these callers may learn about other processes
		text += ":"
		for _, p := range inside {
			text += fmt.Sprintf(" %s (process %d)", p.Command, p.PID)
		}
	}

	return errs.Fail(errs.Busy, "%s", text).WithHint("end them first, or use `amberfs fork --delete --force %s`", a.Name)
}
