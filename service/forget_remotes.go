package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// onRemotes removes all that was ever forgotten from all remotes. What cannot be removed is in the
// receipt, also a remote that does not answer.
func (er *erasure) onRemotes(ctx context.Context, r *Request, done *forget.Receipt) error {
	chunks, err := r.Workspace.Store().ForgottenChunks()
	if err != nil {
		return err
	}

	run := &remoteForget{store: r.Workspace.Store(), stored: er.stored, chunks: chunks, rewritten: r.Workspace.Store().RewrittenSnapshots()}
	failed := false
	for _, name := range slices.Sorted(maps.Keys(er.known.List())) {
		r.progress(Progress{What: "forgetting on " + name})
		if err := run.on(ctx, er.known, name, done); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = true
			done.Cannot = append(done.Cannot, fmt.Sprintf("what remote %s has: %v; `amberfs forget --remotes` tries again", name, err))
		}
	}

	// The cache has what was read from the remotes now.
	if err := er.known.EraseCache(); err != nil || failed {
		return err
	}

	return er.known.SetForgetting(false)
}

// A remoteForget is one call of erasure.onRemotes.
type remoteForget struct {
	store     *snapshot.Store
	stored    func(context.Context, cas.Hash) (cas.Stored, error)
	chunks    map[cas.Hash]bool
	rewritten map[string]snapshot.RewrittenSnapshot
}

// on removes what was forgotten from a remote.
func (f *remoteForget) on(ctx context.Context, known *known.Registry, name string, receipt *forget.Receipt) error {
	to, err := known.Remote(name)
	if err != nil {
		return err
	}

	if known.ReadsFrom(to) {
		return errs.New(errs.Busy, "this store reads files from it, and would lose them; forget it in a store that has them")
	}

	old := make(map[string]bool)
	for id := range f.rewritten {
		old[id] = true
	}

	done, err := to.Forget(ctx, remote.Forget{Chunks: f.chunks, Old: old, Push: func(ctx context.Context, ref *remote.Ref, base string) error {
		if now, ok := f.rewritten[ref.ID]; ok {
			return f.pushRewritten(ctx, to, ref, now, base)
		}
		return f.pushAgain(ctx, to, ref, base)
	}})
	if done != nil {
		receipt.Remotes = append(receipt.Remotes, forget.Remote{Name: name, Replaced: done.Replaced, Removed: done.Removed, Left: done.Left})
	}
	if err != nil {
		return err
	}

	if done.Versions {
		receipt.Cannot = append(receipt.Cannot, fmt.Sprintf("former versions in the bucket of remote %s, which has versioning: remove them with the rights of its owner", name))
	}
	if done.Registry {
		receipt.Cannot = append(receipt.Cannot, fmt.Sprintf("layers without a tag in remote %s: the registry removes them", name))
	}

	return nil
}

// pushRewritten replaces a snapshot on a remote by the tree that it has now.
func (f *remoteForget) pushRewritten(ctx context.Context, to *remote.Remote, ref *remote.Ref, now snapshot.RewrittenSnapshot, base string) error {
	x, err := now.Workspace.Remotes().Push(ctx, now.Name)
	if err != nil {
		return err
	}
	defer x.Release()

	p := remote.Push{Ref: pushedRef(x.Info, ref.Name, x.ActorSets), Force: true, Full: base == "", Base: base,
		Mark: marker(x.State, f.store.Source(), x.ActorSets), Stored: f.stored}
	p.Ref.Claim, p.Ref.Lineage, p.Ref.Expires = x.Claim, x.Lineage, ref.Expires
	_, err = to.Push(ctx, p)

	return err
}

// pushAgain sends a snapshot on a remote again, from the remote itself: it shares objects with others.
func (f *remoteForget) pushAgain(ctx context.Context, to *remote.Remote, ref *remote.Ref, base string) error {
	there := to.Snapshot(ref)
	src := tree.NewSource(pullSource{ctx, f.store, there}, nil, 16<<20)
	st, err := tree.Load(src, ref.State())
	if err != nil {
		return err
	}

	mark := marker(st, src, ref.ActorSets)
	p := remote.Push{Ref: *ref, Force: true, Full: base == "", Base: base, Stored: there.Stored,
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			has := false
			err := mark(ctx, func(h cas.Hash) bool {
				has = has || f.chunks[h]
				return keep(h)
			})
			if has {
				err = errors.Join(err, errs.New(errs.Failed, "it is not in this store: pull it, forget the contents again, and push it"))
			}
			return err
		}}
	_, err = to.Push(ctx, p)

	return err
}

// searchRemotes adds what the remotes have of what was forgotten to a proof.
func searchRemotes(ctx context.Context, st *snapshot.Store, remotes *known.Registry, r *Request, proof *forget.Proof) error {
	if len(proof.Receipts) == 0 {
		return nil
	}
	scan, err := st.SearchForgotten()
	if err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(remotes.List())) {
		r.progress(Progress{What: "verifying " + name})
		at, err := remotes.Remote(name)
		if err != nil {
			return explainRemoteError(name, err)
		}

		unread, err := at.Contents(ctx, func(sn string, h cas.Hash, b []byte) error {
			proof.Objects, proof.Bytes = proof.Objects+1, proof.Bytes+int64(len(b))
			if scan.Object(h) || scan.In(b) {
				proof.Found = append(proof.Found, fmt.Sprintf("snapshot %s on remote %s", sn, name))
			}
			return nil
		})
		if err != nil {
			return explainRemoteError(name, err)
		}
		if unread > 0 {
			proof.Found = append(proof.Found, fmt.Sprintf("remote %s, perhaps: %s that no snapshot needs cannot be read", name, plural(unread, "object", "objects")))
		}
	}

	slices.Sort(proof.Found)
	proof.Found = slices.Compact(proof.Found)

	return nil
}
