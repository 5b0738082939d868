package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// remotes has the operations on remotes. For a fork that begins with a snapshot on a remote, it finds the snapshot.
type remotes struct {
	store    remoteStore
	objects  objectStore
	registry *known.Registry
	merge    func(context.Context, *Request, snapshot.MergeOptions) (snapshot.PromoteResult, error) // see forks.merge
	addLock  sync.Mutex                                                                             // locked by ensureLocal, so that a remote snapshot is added to a workspace only once
	// handoffLock is locked by the operations Handoff and HandoffBack, so that only one of them at a time changes the
	// areas of handoffs (known.Areas).
	handoffLock sync.Mutex
}

// An objectReader reads the objects of the store.
type objectReader interface {
	Object(h cas.Hash, dst []byte) ([]byte, error)
}

// A remoteStore protects pulled objects from gc until their snapshot is added.
type remoteStore interface {
	objectReader
	BeginImport() (done func())
	CollectSoon()
}

// An objectStore has the objects of a store.
type objectStore interface {
	content.ObjectStore
	Has(h cas.Hash) (bool, error)
	GetStored(h cas.Hash) (cas.StoredObject, error)
	Commit(...cas.MetaOp) error // returns when the objects that were put are on disk
}

// addRemote initializes the remote at a URL if it is new, and registers it.
func (rs *remotes) addRemote(ctx context.Context, _ *Request, a AddRemote) (AddedRemote, error) {
	if !backend.IsURL(a.URL) {
		return AddedRemote{}, errs.Fail(errs.Invalid, "a remote is named by a URL: s3://BUCKET/PREFIX, oci://HOST/REPOSITORY or file:///DIR")
	}
	r, err := rs.registry.Remote(a.URL)
	if err != nil {
		return AddedRemote{}, err
	}
	if err := rs.registry.CheckAdd(a.Name, r.URL()); err != nil {
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
	return done, rs.registry.Add(a.Name, r.URL())
}

func (rs *remotes) listRemotes(_ context.Context, _ *Request, _ Remotes) (RemoteList, error) {
	list := RemoteList{Remotes: []Remote{}}
	known := rs.registry.List()
	for _, name := range slices.Sorted(maps.Keys(known)) {
		list.Remotes = append(list.Remotes, Remote{Name: name, URL: known[name]})
	}
	return list, nil
}

func (rs *remotes) trustRemote(_ context.Context, _ *Request, a TrustRemote) (Remote, error) {
	url, err := rs.registry.Trust(a.Remote)
	return Remote{Name: a.Remote, URL: url}, err
}

func (rs *remotes) removeRemote(_ context.Context, _ *Request, a RemoveRemote) (None, error) {
	return None{}, rs.registry.Remove(a.Name)
}

// remote returns the remote with a name. A caller on the socket may also pass a URL. A caller in the mount
// may not, because the daemon lends it credentials only for remotes that the owner added.
func (rs *remotes) remote(r *Request, name string) (*remote.Remote, error) {
	if !r.Caller.ViaSocket && backend.IsURL(name) {
		return nil, errs.Fail(errs.Perm, "through the mount, only registered remotes can be used").
			WithHint("`amberfs remote add` gives it a name")
	}
	return rs.registry.Remote(name)
}

// confinedToFork reports whether the caller can reach a fork only, and not main.
func confinedToFork(r *Request) bool { return !r.Caller.ViaSocket && r.Workspace.IsFork() }

func (rs *remotes) pull(ctx context.Context, r *Request, a Pull) (PulledList, error) {
	done := PulledList{Pulled: []info.Info{}}
	if a.As != "" && len(a.Snapshots) != 1 {
		return done, errs.Fail(errs.Invalid, "--as needs exactly one snapshot")
	}

	source, err := rs.remote(r, a.Remote)
	if err != nil {
		return done, err
	}

	for _, name := range a.Snapshots {
		info, err := rs.pullOne(ctx, r, a, source, name)
		if err != nil {
			return done, explainTransferError(a.Remote, err)
		}
		done.Pulled = append(done.Pulled, info)
	}

	return done, nil
}

// pullOne copies a snapshot from a remote into the workspace, unless the workspace already has the snapshot
// under that name.
func (rs *remotes) pullOne(ctx context.Context, r *Request, a Pull, source *remote.Remote, name string) (info.Info, error) {
	ref, err := source.Find(ctx, name)
	if err != nil {
		return info.Info{}, err
	}

	info := InfoOf(ref)
	info.Name = cmp.Or(a.As, naming.LocalName(ref.Name))
	if present, err := r.Workspace.Find(info.Name); err == nil && present.ID == ref.ID {
		return present, nil
	}
	if err := r.Workspace.Remotes().CheckPull(info); err != nil {
		return info, err
	}

	pulled := source.Snapshot(ref)
	defer rs.store.BeginImport()()

	if err := rs.copyObjects(ctx, r, pulled); err != nil {
		rs.store.CollectSoon()
		return info, err
	}

	info, err = r.Workspace.Remotes().AddPulled(info, ref.StateHash(), r.Caller)
	if err != nil {
		return info, err
	}

	return info, rs.registry.SetPushBase(source, ref.Name)
}

// copyObjects copies the objects of a snapshot on a remote to the disk of the store.
func (rs *remotes) copyObjects(ctx context.Context, r *Request, pulled *remote.Snapshot) error {
	src := tree.NewSource(pullSource{ctx, rs.store, pulled}, nil, 16<<20)
	st, err := tree.Load(src, pulled.Ref.StateHash())
	if err != nil {
		return err
	}

	err = pulled.Pull(ctx, remote.PullOptions{
		Mark: markFunc(st, src, pulled.Ref.ActorSets), Has: rs.objects.Has, Put: rs.objects.Put,
		Progress: byteProgress("pulling "+pulled.Ref.Name, r.progress),
	})
	if err != nil {
		return err
	}

	return rs.objects.Commit()
}

// A pullSource is a read-only object store. It reads objects from a snapshot on a remote. Objects that the snapshot
// does not have are read from the local store.
type pullSource struct {
	ctx    context.Context
	local  objectReader
	remote *remote.Snapshot
}

func (p pullSource) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if b, err := p.remote.Get(p.ctx, h, dst); !errors.Is(err, cas.ErrNotFound) {
		return b, err
	}
	return p.local.Object(h, dst)
}

func (p pullSource) Put(cas.Kind, []byte) (cas.Hash, error) { return cas.Hash{}, errors.ErrUnsupported }

// InfoOf returns the Info of the snapshot that a ref describes.
func InfoOf(ref *remote.Ref) info.Info {
	return info.Info{
		Name: ref.Name, ID: ref.ID, Message: ref.Message, Labels: ref.Labels, Created: ref.Created, Kind: ref.Kind,
		Files: ref.Files, Bytes: ref.Bytes, Sealed: true, Origin: info.Origin{Actors: ref.Actors},
		Transfer: info.Transfer{ActorSets: ref.ActorSets, Lineage: ref.Lineage},
	}
}

func (rs *remotes) remoteSnapshots(ctx context.Context, _ *Request, a RemoteSnapshots) (RemoteSnapshotList, error) {
	list := RemoteSnapshotList{Snapshots: []RemoteSnapshot{}}
	source, err := rs.registry.Remote(a.Remote)
	if err != nil {
		return list, err
	}

	err = source.Refs(ctx, func(name string, ref *remote.Ref, err error) error {
		switch {
		case err == nil:
			list.Snapshots = append(list.Snapshots, RemoteSnapshot{Info: InfoOf(ref), Pushed: ref.Pushed})
		case errors.Is(err, errs.Damaged) || errors.Is(err, errs.Format):
			list.Snapshots = append(list.Snapshots, RemoteSnapshot{Info: info.Info{Name: name}, Problem: err.Error()})
		default:
			return err
		}
		return nil
	})

	slices.SortStableFunc(list.Snapshots, func(a, b RemoteSnapshot) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.Name, b.Name))
	})

	return list, explainRemoteError(a.Remote, err)
}

func (rs *remotes) removePushed(ctx context.Context, _ *Request, a RemovePushed) (Removed, error) {
	target, err := rs.registry.Remote(a.Remote)
	if err != nil {
		return Removed{}, err
	}
	return Removed{Names: a.Names}, explainRemoteError(a.Remote, target.Remove(ctx, a.Names...))
}

func (rs *remotes) gcRemote(ctx context.Context, _ *Request, a GCRemote) (remote.Collected, error) {
	rem, err := rs.registry.Remote(a.Remote)
	if err != nil {
		return remote.Collected{}, err
	}
	result, err := rem.GC(ctx)
	return result, explainRemoteError(a.Remote, err)
}

func (rs *remotes) verifyRemote(ctx context.Context, r *Request, a VerifyRemote) (VerifiedRemote, error) {
	result := VerifiedRemote{Damage: []RemoteDamage{}}
	rem, err := rs.registry.Remote(a.Remote)
	if err != nil {
		return result, err
	}

	result.VerifyResult, err = rem.Verify(ctx, a.Deep, func(name string, err error) {
		result.Damage = append(result.Damage, RemoteDamage{Snapshot: name, Problem: err.Error()})
	}, byteProgress("verifying "+a.Remote, r.progress))
	if err != nil {
		return result, explainRemoteError(a.Remote, err)
	}

	if len(result.Damage) > 0 {
		return result, errs.Fail(errs.Damaged, "damaged on the remote: %s", plural(len(result.Damage), "snapshot", "snapshots")).
			WithHint("push them again with --force --full").WithResult(result)
	}

	return result, nil
}

// explainRemoteError adds the name of the remote and a hint to an error of the remote. It returns nil for
// nil.
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

// explainTransferError does what explainRemoteError does, for a push or a pull. If the remote does not answer, the
// hint says that the same command continues the transfer.
func explainTransferError(name string, err error) error {
	if errors.Is(err, backend.ErrAway) && !errors.Is(err, backend.ErrUntrusted) {
		return errs.Fail(errs.Failed, "remote %s: %w", name, err).WithHint("what was transferred is kept: run the same command again to continue")
	}
	return explainRemoteError(name, err)
}

// namesRemote reports whether a name is REMOTE@SNAPSHOT: names of snapshots in the store have no @.
func namesRemote(name string) bool {
	return strings.Contains(name, "@") && !strings.HasPrefix(name, "label:")
}

// argsNameRemote reports whether arguments have a field "from" or "snapshot" that names a snapshot on a remote. A call
// with such arguments must first ask the remote.
func argsNameRemote(args any) bool {
	return slices.ContainsFunc([]string{"from", "snapshot"}, func(field string) bool {
		f := FieldNamed(reflect.ValueOf(args), field)
		return f.IsValid() && f.Kind() == reflect.String && namesRemote(f.String())
	})
}

// ensureLocalName returns the name in the workspace of a snapshot that may be on a remote. If name is
// REMOTE@SNAPSHOT, ensureLocalName adds that snapshot to the workspace; its contents are fetched when they are
// read. It returns any other name unchanged.
func (rs *remotes) ensureLocalName(ctx context.Context, r *Request, name string) (string, error) {
	if !namesRemote(name) {
		return name, nil
	}
	ref, err := rs.remoteRef(ctx, r, name, false)
	if err != nil {
		return "", err
	}

	return rs.ensureLocal(r, ref)
}

// remoteRef finds the snapshot REMOTE@SNAPSHOT, and registers it as a snapshot from which the store may read objects.
// The answer of the remote is cached for a minute. If refresh is set, remoteRef does not use the cache.
func (rs *remotes) remoteRef(ctx context.Context, r *Request, name string, refresh bool) (*remote.Ref, error) {
	sep := strings.LastIndexByte(name, '@')
	if sep == 0 || sep == len(name)-1 {
		return nil, errs.Fail(errs.Invalid, "a snapshot on a remote is named as REMOTE@SNAPSHOT, not %q", name)
	}

	target, err := rs.remote(r, name[:sep])
	if err != nil {
		return nil, err
	}

	if refresh {
		if err := rs.registry.ForgetName(ctx, target, name[sep+1:]); err != nil {
			return nil, err
		}
	}

	ref, err := rs.registry.AddSource(ctx, target, name[sep+1:])
	return ref, explainRemoteError(name[:sep], err)
}

// ensureLocal returns the name that a snapshot on a remote has in the workspace. If the workspace does not
// have the snapshot, ensureLocal adds it first.
func (rs *remotes) ensureLocal(r *Request, ref *remote.Ref) (string, error) {
	rs.addLock.Lock()
	defer rs.addLock.Unlock()
	if here, err := r.Workspace.Find(ref.ID); err == nil {
		return here.Name, nil
	}
	defer rs.store.BeginImport()()

	info := InfoOf(ref)
	info.Name = naming.LocalName(info.Name)
	if err := r.Workspace.Remotes().CheckPull(info); errors.Is(err, errs.Exist) {
		info.Name = fmt.Sprintf("%.100s-%.8s", info.Name, info.ID)
	} else if err != nil {
		return "", err
	}

	info, err := r.Workspace.Remotes().AddPulled(info, ref.StateHash(), r.Caller)
	return info.Name, err
}
