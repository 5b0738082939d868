package service

import (
	"context"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Access says who may ask for an operation through a control file: the table "Who may
// what" of docs/reference/control-files.md, from the top down.
type Access int

const (
	// Looks: whoever may look into .snapshots.
	Looks Access = iota
	// Tells names or contents of files whoever may read those: the owner of the
	// workspace.
	Tells
	// Makes something new beside what is there: who may write the root directory.
	Makes
	// Alters files of others, perhaps: the same, but in a root directory with
	// the sticky bit only its owner.
	Alters
	// Owns: the owner of the store.
	Owns
	// Governs all workspaces: the owner of the store, in main.
	Governs
	// Direct: nobody but through the socket.
	Direct
)

// Admit refuses what the caller may not ask for, without doing it.
func (s *Service) Admit(ctx context.Context, r *Request, args any) error {
	return s.admit(ctx, r, OpOf(args), args)
}

// admit refuses what the caller may not do here. It is the one place that knows who may
// what; what a policy protects from those who may is up to package snapshot.
func (s *Service) admit(ctx context.Context, r *Request, o *Op, args any) error {
	if o.Mutates && r.Caller.Direct && s.ReadOnly() { // in the mount the kernel refuses
		return fail.New(fail.Denied, "the mount at %s is read-only", s.Mountpoint).WithHint("mount it without ro")
	}
	if r.Caller.Direct || o.Access == Looks {
		return nil
	}
	owner, sticky, err := s.owner(ctx, r)
	switch governs := r.Caller.OwnsStore() && !r.Workspace.IsFork(); {
	case err != nil:
		return err
	case o.Access == Direct:
		hint := "run it as the user who mounted it, and outside of the sandbox"
		if o.Instead != "" {
			hint += ", or use " + o.Instead
		}
		return fail.New(fail.Denied, "this needs the store's socket, which cannot be reached from here").WithHint("%s", hint)
	case o.Access == Owns && !r.Caller.OwnsStore():
		return fail.New(fail.Denied, "only the owner of the store may ask for %s", o.Name)
	case o.Access == Governs && !governs:
		return fail.New(fail.Denied, "only the owner of the store, in main, may ask for %s", o.Name)
	case o.Access == Tells && !owner, o.Access == Alters && sticky && !owner:
		return fail.New(fail.Denied, "only the owner of the workspace may ask for %s", o.Name)
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

// beginsHere refuses a fork that is to begin from a remote.
func beginsHere(from string) error {
	if isRemote(from) {
		return fail.New(fail.Denied, "only the owner of the store, in main, may begin a fork from a remote")
	}
	return nil
}

// mayPush refuses what may not be pushed by who is not the owner of the store, in main:
// the daemon's credentials are for the remote that the policy of main names, and nothing
// is replaced there.
func (s *Service) mayPush(a Push) error {
	allowed := s.Store.Main().Policy().Push.Remote
	switch {
	case allowed == "":
		return fail.New(fail.Denied, "the policy of the store's owner lets nobody else push").
			WithHint(`the owner can allow it with: echo '{"push":{"remote":"NAME"}}' | amberfs policy -`)
	case a.Remote != "" && a.Remote != allowed:
		return fail.New(fail.Denied, "the policy of the store's owner allows pushes to %s only", allowed)
	case a.Force, a.Full:
		return fail.New(fail.Denied, "only the owner of the store, in main, may replace what is on a remote")
	}
	return nil
}

// owner reports whether the caller owns the workspace's root directory, or the
// store, and whether the directory has the sticky bit.
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
