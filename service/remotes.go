package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// remotes has the operations on remotes, and finds the snapshots on them that forks begin with.
type remotes struct {
	store  *snapshot.Store
	known  *known.Registry
	adding sync.Mutex // locked by localNameOf, so that a snapshot on a remote is added once
}

// addRemote initializes the remote at a URL if it is new, and registers it.
func (rs *remotes) addRemote(ctx context.Context, _ *Request, a AddRemote) (AddedRemote, error) {
	if !backend.IsURL(a.URL) {
		return AddedRemote{}, errs.Fail(errs.Invalid, "a remote is named by a URL: s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR")
	}
	r, err := rs.known.Remote(a.URL)
	if err != nil {
		return AddedRemote{}, err
	}
	if err := rs.known.MayAdd(a.Name, r.URL()); err != nil {
		return AddedRemote{}, err
	}
	if err := backend.MakeDir(a.URL); err != nil {
		return AddedRemote{}, err
	}

	done := AddedRemote{Remote: Remote{Name: a.Name, URL: r.URL()}, Warnings: []string{}}
	f, err := r.Init(ctx, a.Recipients, func(w string) { done.Warnings = append(done.Warnings, w) })
	if err != nil {
		return done, err
	}

	done.Encrypted = len(f.Recipients) > 0
	return done, rs.known.Add(a.Name, r.URL())
}

func (rs *remotes) remotes(_ context.Context, _ *Request, _ Remotes) (RemoteList, error) {
	list := RemoteList{Remotes: []Remote{}}
	known := rs.known.List()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		list.Remotes = append(list.Remotes, Remote{Name: name, URL: known[name]})
	}
	return list, nil
}

func (rs *remotes) trustRemote(_ context.Context, _ *Request, a TrustRemote) (Remote, error) {
	url, err := rs.known.Trust(a.Remote)
	return Remote{Name: a.Remote, URL: url}, err
}

func (rs *remotes) removeRemote(_ context.Context, _ *Request, a RemoveRemote) (None, error) {
	return None{}, rs.known.Remove(a.Name)
}

// push sends snapshots one after the other. Objects that the one before needs are not sent again.
func (rs *remotes) push(ctx context.Context, r *Request, a Push) (PushedList, error) {
	done := PushedList{Pushed: []Pushed{}}
	if len(a.Snapshots) == 0 {
		return done, errs.Fail(errs.Invalid, "name a snapshot")
	}
	if a.As != "" && len(a.Snapshots) != 1 {
		return done, errs.Fail(errs.Invalid, "--as needs exactly one snapshot")
	}

	if a.Remote == "" {
		var err error
		if a.Remote, err = rs.usualRemote(); err != nil {
			return done, err
		}
	}

	to, err := rs.remote(r, a.Remote)
	if err != nil {
		return done, err
	}

	for _, name := range a.Snapshots {
		p, err := rs.pushOne(ctx, r, a, to, name)
		if err != nil {
			return done, resumable(a.Remote, err)
		}
		done.Pushed = append(done.Pushed, p)
	}

	// The list on the remote is a cache of its snapshots. Without it the next listing is slower.
	if err := to.UpdateList(ctx); err != nil {
		r.log.Warn("push: the list of the remote's snapshots was not written", "remote", a.Remote, "err", err)
	}

	return done, nil
}

// usualRemote returns the remote that the policy names, else the only remote.
func (rs *remotes) usualRemote() (string, error) {
	if name := rs.store.Main().Policy().Push.Remote; name != "" {
		return name, nil
	}

	all := slices.Sorted(maps.Keys(rs.known.List()))
	switch len(all) {
	case 0:
		return "", errs.Fail(errs.NotExist, "the store has no remote").WithHint("`amberfs remote add NAME URL` adds one")
	case 1:
		return all[0], nil
	}

	return "", errs.Fail(errs.Invalid, "name one of the remotes %s", strings.Join(all, ", "))
}

// pushedName returns the name of a snapshot on a remote. If a caller in a fork pushes it, the name
// begins with the fork's name, so that the caller cannot take a name that others need.
func pushedName(r *Request, name, as string) string {
	name = cmp.Or(as, name)
	if !confinedToFork(r) {
		return name
	}
	return strings.Join(append(forkNames(r.Workspace), name), ".")
}

// remote returns the remote of a name or, over the socket, at a URL: callers in
// the mount use the daemon's credentials only for remotes that the owner added.
func (rs *remotes) remote(r *Request, name string) (*remote.Remote, error) {
	if !r.Caller.Direct && backend.IsURL(name) {
		return nil, errs.Fail(errs.Perm, "through the mount, only registered remotes can be used").
			WithHint("`amberfs remote add` gives it a name")
	}
	return rs.known.Remote(name)
}

// pushOne waits until a snapshot has its id, and pushes it. If its name is taken on the remote by an
// earlier state of the same claimed fork, that state is renamed there first.
func (rs *remotes) pushOne(ctx context.Context, r *Request, a Push, to *remote.Remote, name string) (Pushed, error) {
	x, err := r.Workspace.Remotes().Push(ctx, name)
	if err != nil {
		return Pushed{}, err
	}
	defer x.Release()

	as := pushedName(r, x.Info.Name, a.As)
	if err := naming.Check(as); err != nil && !naming.IsAuto(as) {
		return Pushed{}, err
	}

	p := remote.Push{
		Ref: pushedRef(x.Info, as, x.ActorSets), Force: a.Force, Full: a.Full,
		Base: rs.known.Base(to), Mark: marker(x.State, rs.store.Source(), x.ActorSets), Stored: rs.stored,
		Progress: func(parts, of int, sent int64) {
			r.progress(Progress{What: "pushing " + x.Info.Name, Done: int64(parts), Total: int64(of), Unit: "parts", Bytes: sent})
		},
	}

	start := time.Now()
	p.Ref.Claim, p.Ref.Lineage = x.Claim, x.Lineage
	done, err := to.Push(ctx, p)
	if errors.Is(err, remote.ErrExists) {
		if p.Force, err = rs.makeWay(ctx, to, &p.Ref, err); p.Force {
			done, err = to.Push(ctx, p)
		}
	}
	if err != nil {
		return Pushed{}, err
	}

	r.log.Info("push", "remote", a.Remote, "snapshot", x.Info.Name, "as", done.Ref.Name, "bytes", done.Bytes, "took", time.Since(start))
	if !done.Unchanged {
		r.Workspace.Remotes().Pushed(x.Info.Name, a.Remote, r.Caller)
	}

	out := Pushed{Remote: a.Remote, Snapshot: x.Info.Name, As: done.Ref.Name, ID: done.Ref.ID, Pushed: *done}
	if confinedToFork(r) {
		out.Objects, out.Bytes = 0, 0 // they depend on the objects of other tenants on the remote
		return out, nil               // the base of the owner's next push stays a snapshot of the owner
	}

	return out, rs.known.SetBase(to, done.Ref.Name)
}

// makeWay keeps the snapshot on the remote that has the name of ref as NAME.ID, and returns true, if
// it is an earlier state of the same claimed fork as ref. Otherwise it returns inUse.
func (rs *remotes) makeWay(ctx context.Context, to *remote.Remote, ref *remote.Ref, inUse error) (bool, error) {
	old, err := to.Ref(ctx, ref.Name)
	if err != nil {
		return false, err
	}

	kept := fmt.Sprintf("%s.%.8s", old.Name, old.ID)
	if ref.Claim == "" || old.Claim != ref.Claim || !slices.Contains(ref.Lineage, old.ID) || naming.Check(kept) != nil {
		return false, inUse
	}
	if err := to.CopyRef(ctx, old, kept); err != nil {
		return false, err
	}

	return true, nil
}

// confinedToFork reports whether the caller can reach a fork only, and not main.
func confinedToFork(r *Request) bool { return !r.Caller.Direct && r.Workspace.IsFork() }

func pushedRef(i info.Info, as string, actors []cas.Hash) remote.Ref {
	ref := remote.Ref{
		Name: as, ID: i.ID, Message: i.Message, Labels: i.Labels, Created: i.Created, Kind: i.Kind, Files: i.Files, Bytes: i.Bytes,
		Actors: i.Actors, ActorSets: actors,
	}
	if i.Expires != nil {
		ref.Expires = *i.Expires
	}

	return ref
}

// marker returns a function that calls keep for each object of a state, and for the further objects.
func marker(st *tree.State, src *tree.Source, further []cas.Hash) func(context.Context, func(cas.Hash) bool) error {
	return func(ctx context.Context, keep func(cas.Hash) bool) error {
		for _, h := range further {
			keep(h)
		}
		return st.Mark(ctx, src, nil, false, keep)
	}
}

// stored returns an object from the store or, if it is not there, from its remotes.
func (rs *remotes) stored(ctx context.Context, h cas.Hash) (cas.Stored, error) {
	rec, err := rs.store.CAS().Stored(h)
	if errors.Is(err, cas.ErrNotFound) {
		return rs.known.Stored(ctx, h)
	}
	return rec, err
}

func (rs *remotes) pull(ctx context.Context, r *Request, a Pull) (PulledList, error) {
	done := PulledList{Pulled: []info.Info{}}
	if a.As != "" && len(a.Snapshots) != 1 {
		return done, errs.Fail(errs.Invalid, "--as needs exactly one snapshot")
	}

	from, err := rs.remote(r, a.Remote)
	if err != nil {
		return done, err
	}

	for _, name := range a.Snapshots {
		info, err := rs.pullOne(ctx, r, a, from, name)
		if err != nil {
			return done, resumable(a.Remote, err)
		}
		done.Pulled = append(done.Pulled, info)
	}

	return done, nil
}

// pullOne copies a snapshot from a remote, unless the workspace has it under the name.
func (rs *remotes) pullOne(ctx context.Context, r *Request, a Pull, from *remote.Remote, name string) (info.Info, error) {
	ref, err := from.Find(ctx, name)
	if err != nil {
		return info.Info{}, err
	}

	info := InfoOf(ref)
	info.Name = cmp.Or(a.As, naming.Local(ref.Name))
	if present, err := r.Workspace.Find(info.Name); err == nil && present.ID == ref.ID {
		return present, nil
	}
	if err := r.Workspace.Remotes().MayPull(info); err != nil {
		return info, err
	}

	pulled := from.Snapshot(ref)
	defer rs.store.Importing()()

	if err := rs.copyObjects(ctx, r, pulled); err != nil {
		rs.store.Abandon()
		return info, err
	}

	info, err = r.Workspace.Remotes().Pulled(info, ref.State(), r.Caller)
	if err != nil {
		return info, err
	}

	return info, rs.known.SetBase(from, ref.Name)
}

// copyObjects copies the objects of a snapshot on a remote to the disk of the store.
func (rs *remotes) copyObjects(ctx context.Context, r *Request, from *remote.Snapshot) error {
	store := rs.store.CAS()
	src := tree.NewSource(pullSource{ctx, rs.store, from}, nil, 16<<20)
	st, err := tree.Load(src, from.Ref.State())
	if err != nil {
		return err
	}

	err = from.Pull(ctx, remote.Pull{
		Mark: marker(st, src, from.Ref.ActorSets), Has: store.Has, Put: store.Put,
		Progress: func(done, total int64) {
			r.progress(Progress{What: "pulling " + from.Ref.Name, Done: done, Total: total, Unit: "bytes"})
		},
	})
	if err != nil {
		return err
	}

	return store.Commit()
}

// A pullSource reads objects from a snapshot on a remote, else from the store. It is read-only.
type pullSource struct {
	ctx   context.Context
	store *snapshot.Store
	from  *remote.Snapshot
}

func (p pullSource) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if b, err := p.from.Get(p.ctx, h, dst); !errors.Is(err, cas.ErrNotFound) {
		return b, err
	}
	return p.store.Object(h, dst)
}

func (p pullSource) Put(cas.Kind, []byte) (cas.Hash, error) { return cas.Hash{}, errors.ErrUnsupported }

// InfoOf describes the snapshot of a ref.
func InfoOf(ref *remote.Ref) info.Info {
	return info.Info{
		Name: ref.Name, ID: ref.ID, Message: ref.Message, Labels: ref.Labels, Created: ref.Created, Kind: ref.Kind,
		Files: ref.Files, Bytes: ref.Bytes, Sealed: true,
	}
}

func (rs *remotes) remoteSnapshots(ctx context.Context, _ *Request, a RemoteSnapshots) (RemoteSnapshotList, error) {
	list := RemoteSnapshotList{Snapshots: []RemoteSnapshot{}}
	from, err := rs.known.Remote(a.Remote)
	if err != nil {
		return list, err
	}

	err = from.Refs(ctx, func(name string, ref *remote.Ref, err error) error {
		if err != nil && !errors.Is(err, errs.Damaged) && !errors.Is(err, errs.Format) {
			return err
		}

		if err != nil {
			list.Snapshots = append(list.Snapshots, RemoteSnapshot{Info: info.Info{Name: name}, Problem: err.Error()})
			return nil
		}

		list.Snapshots = append(list.Snapshots, RemoteSnapshot{Info: InfoOf(ref), Pushed: ref.Pushed})
		return nil
	})

	slices.SortFunc(list.Snapshots, func(a, b RemoteSnapshot) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.Name, b.Name))
	})

	return list, explainRemoteError(a.Remote, err)
}

func (rs *remotes) removePushed(ctx context.Context, _ *Request, a RemovePushed) (Removed, error) {
	from, err := rs.known.Remote(a.Remote)
	if err != nil {
		return Removed{}, err
	}
	return Removed{Names: a.Names}, explainRemoteError(a.Remote, from.Remove(ctx, a.Names...))
}

func (rs *remotes) gcRemote(ctx context.Context, _ *Request, a GCRemote) (remote.Collected, error) {
	at, err := rs.known.Remote(a.Remote)
	if err != nil {
		return remote.Collected{}, err
	}
	done, err := at.GC(ctx)
	return done, explainRemoteError(a.Remote, err)
}

func (rs *remotes) verifyRemote(ctx context.Context, r *Request, a VerifyRemote) (VerifiedRemote, error) {
	done := VerifiedRemote{Damage: []RemoteDamage{}}
	at, err := rs.known.Remote(a.Remote)
	if err != nil {
		return done, err
	}

	done.Verified, err = at.Verify(ctx, a.Deep, func(name string, err error) {
		done.Damage = append(done.Damage, RemoteDamage{Snapshot: name, Problem: err.Error()})
	}, func(n, total int64) {
		r.progress(Progress{What: "verifying " + a.Remote, Done: n, Total: total, Unit: "bytes"})
	})
	if err != nil {
		return done, explainRemoteError(a.Remote, err)
	}

	if len(done.Damage) > 0 {
		return done, errs.Fail(errs.Damaged, "damaged on the remote: %s", plural(len(done.Damage), "snapshot", "snapshots")).
			WithHint("push them again with --force --full").WithResult(done)
	}

	return done, nil
}

// explainRemoteError adds the name of the remote and a hint to an error of the remote. nil stays nil.
func explainRemoteError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, remote.ErrNoRemote):
		return errs.Fail(errs.NotExist, "%w", err).WithHint("set it up with `amberfs remote add NAME URL`")
	case errors.Is(err, remote.ErrExists):
		return errs.Fail(errs.Exist, "%w", err).WithHint("push under another name with --as, or replace it with --force")
	case errors.Is(err, backend.ErrUntrusted):
		return errs.Fail(errs.Perm, "remote %s: %w", name, err)
	case remote.IsUnsound(err):
		return errs.Fail(errs.Damaged, "remote %s: %w", name, err).WithHint("push the snapshot again with --force --full")
	case errors.Is(err, backend.ErrAway):
		return errs.Fail(errs.Failed, "remote %s: %w", name, err).WithHint("check its address and the network, and try again")
	case errors.Is(err, backend.ErrNoBucket):
		return errs.Fail(errs.NotExist, "remote %s: %w", name, err).WithHint("create the bucket, or correct the URL")
	case errors.Is(err, backend.ErrNotFound):
		return errs.Fail(errs.NotExist, "remote %s: %w", name, err).WithHint("see `amberfs remote snapshots %s`", name)
	}
	return err
}

// resumable is explainRemoteError for push and pull, which continue when they are repeated.
func resumable(name string, err error) error {
	if errors.Is(err, backend.ErrAway) && !errors.Is(err, backend.ErrUntrusted) {
		return errs.Fail(errs.Failed, "remote %s: %w", name, err).WithHint("what was sent is kept: run the same command again to continue")
	}
	return explainRemoteError(name, err)
}
