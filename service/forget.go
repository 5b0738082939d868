package service

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/remote"
	"github.com/amberfs/amberfs/remote/known"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/forget"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// erasure has the operations that forget contents, and that search for forgotten contents. To forget is to
// remove contents from all snapshots of the store and, if asked, of its remotes.
type erasure struct {
	store          erasureStore
	withoutExports func(ctx context.Context, fn func() error) error // see Exports.withoutExports
	repository     string                                           // the store's own git repository
	registry       *known.Registry
	readStored     func(context.Context, cas.Hash) (cas.StoredObject, error)
}

// An erasureStore has the objects of a store and its forgotten contents.
type erasureStore interface {
	objectReader
	ForgottenContents() snapshot.ForgottenContents
}

func (er *erasure) forget(ctx context.Context, r *Request, a snapshot.ForgetOptions) (*forget.Receipt, error) {
	a.Caller, a.Prune = r.Caller, er.prune
	r.progress(Progress{What: "forgetting"})

	if a.Remotes && len(a.Paths)+len(a.Content)+len(a.Match) == 0 && !a.Secrets {
		receipt := &forget.Receipt{At: time.Now(), Actor: r.Caller.Actor, Removed: []forget.Place{}, Snapshots: []forget.Rewritten{}, Unremovable: []string{}}
		if receipt.DryRun = a.DryRun; a.DryRun {
			return receipt, nil
		}
		return receipt, er.forgetOnRemotes(ctx, r, receipt)
	}

	// Record that the contents must be removed from the remotes. If the daemon is killed now, the next daemon does
	// it at its start.
	mustForgetBefore := er.registry.MustForget()
	if a.Remotes && !a.DryRun {
		if err := er.registry.SetMustForget(true); err != nil {
			return nil, err
		}
	}

	receipt, err := er.forgetInStore(ctx, r, a)
	if err != nil {
		return nil, errors.Join(err, er.registry.SetMustForget(mustForgetBefore))
	}
	if a.Remotes && !a.DryRun {
		if err := er.forgetOnRemotes(ctx, r, receipt); err != nil {
			return nil, err
		}
	}
	if !receipt.DryRun {
		r.log.Info("forget", "receipt", receipt.Number, "snapshots", len(receipt.Snapshots), "objects", receipt.Objects, "erased", receipt.Erased, "uid", r.Caller.UID)
	}

	return receipt, nil
}

// forgetInStore forgets contents in the store, while no export runs: an export that runs now could later write a ref
// with forgotten contents.
func (er *erasure) forgetInStore(ctx context.Context, r *Request, a snapshot.ForgetOptions) (receipt *forget.Receipt, err error) {
	if a.DryRun {
		return r.Workspace.Forget(ctx, a)
	}

	err = er.withoutExports(ctx, func() error {
		receipt, err = r.Workspace.Forget(ctx, a)
		return err
	})

	return receipt, err
}

// EraseForgotten erases, in the store and on the remotes, the forgotten contents that the last daemon did not erase
// before it was killed.
func (s *Service) EraseForgotten(ctx context.Context) error {
	er := s.erasure
	err := er.eraseRest(ctx)
	if err != nil || !er.registry.MustForget() {
		return err
	}

	done := new(forget.Receipt)
	err = er.forgetOnRemotes(ctx, &Request{core: s.core, Workspace: s.main}, done)
	for _, reason := range done.Unremovable {
		s.log.Warn("forgetting on the remotes", "not removed", reason)
	}

	return err
}

// eraseRest erases from the store the forgotten contents that could not be erased when they were forgotten.
func (er *erasure) eraseRest(ctx context.Context) error {
	return er.withoutExports(ctx, func() error { return er.store.ForgottenContents().CompleteErasure(ctx, er.prune) })
}

// prune removes the exports and the cached remote objects that can have forgotten contents. It returns the
// deleted refs. If dryRun is set, it deletes nothing and returns the refs that it would delete.
func (er *erasure) prune(ctx context.Context, commits map[string]bool, dryRun bool) ([]string, error) {
	if !dryRun {
		if err := er.registry.EraseCache(); err != nil {
			return nil, fmt.Errorf("erase the cache of remote objects: %w", err)
		}
	}
	return gitbridge.KeepOnlyCommits(ctx, er.repository, commits, dryRun)
}

// verify returns an error of the kind Damaged, with the proof, if forgotten bytes are in the store.
func (er *erasure) verify(ctx context.Context, r *Request, _ VerifyForgotten) (*forget.Proof, error) {
	r.progress(Progress{What: "verifying"})
	proof, err := er.store.ForgottenContents().Verify(ctx)
	if err != nil {
		return nil, err
	}
	if err := er.searchRemotes(ctx, r, proof); err != nil {
		return nil, err
	}
	return proof, errForgottenFound(proof)
}

func errForgottenFound(proof *forget.Proof) error {
	if proof.OK() {
		return nil
	}

	e := errs.Fail(errs.Damaged, "the store has bytes that were forgotten").
		WithHint("forget them again; `amberfs gc` does not remove what a snapshot has")
	e.Result = proof
	return e
}

// ReceiptText returns a receipt as text.
func ReceiptText(r *forget.Receipt) string {
	removed, masked, deleted, objects := "removed", "overwritten by stars in", "deleted", "erased"
	if r.DryRun {
		removed, masked, deleted, objects = "would remove", "would overwrite by stars in", "would delete", "would erase"
	}

	text := new(strings.Builder)
	if r.Number > 0 {
		fmt.Fprintf(text, "receipt %d\n", r.Number)
	}
	for _, p := range r.Removed {
		what := removed
		if p.Masked {
			what = masked
		}
		fmt.Fprintf(text, "%s: %s\n", what, placeText(p))
	}
	for _, ref := range r.Refs {
		fmt.Fprintf(text, "%s: %s of the store's git repository\n", deleted, ref)
	}
	for _, rem := range r.Remotes {
		fmt.Fprintf(text, "remote %s: %s sent again, %s removed\n", rem.Name, countText(len(rem.Replaced), "snapshot"), countText(rem.Removed, "object"))
		for _, name := range slices.Sorted(maps.Keys(rem.Remaining)) {
			fmt.Fprintf(text, "not removed: snapshot %s on remote %s: %s\n", name, rem.Name, rem.Remaining[name])
		}
		for _, v := range rem.Versions {
			fmt.Fprintf(text, "not removed: version %s of %s on remote %s: the credentials may not remove it\n", v.ID, v.Key, rem.Name)
		}
	}
	for _, url := range r.Handoffs {
		fmt.Fprintf(text, "ended: all handoffs to %s: their lines do not work any more\n", url)
	}
	for _, p := range r.Kept {
		fmt.Fprintf(text, "stays: the same bytes in %s\n", placeText(p))
	}

	fmt.Fprintf(text, "%s, %s %s (%s)\n", countText(len(r.Snapshots), "snapshot")+" rewritten", objects, countText(r.Objects, "object"), BytesText(r.Bytes))
	for _, c := range r.Unremovable {
		fmt.Fprintf(text, "not removed: %s\n", c)
	}

	return text.String()
}

// placeText returns a place as text: the path, the workspace, and the oldest and newest snapshot with the
// path.
func placeText(p forget.Place) string {
	text := gitquote.ReadableName(p.Path) + " of " + p.Workspace
	switch n := len(p.Snapshots); {
	case n == 1:
		text += ", in snapshot " + p.Snapshots[0]
	case n > 1:
		text += fmt.Sprintf(", in %d snapshots, %s to %s", n, p.Snapshots[0], p.Snapshots[n-1])
	}
	if p.InPresent {
		text += ", now"
	}

	return text
}

// ProofText returns a proof as text.
func ProofText(p *forget.Proof) string {
	text := new(strings.Builder)
	for _, r := range p.Receipts {
		state := "erased"
		if !r.Erased {
			state = "not erased yet"
		}
		fmt.Fprintf(text, "receipt %d of %s: %s, %s\n", r.Number, r.At.Format("2006-01-02 15:04"), countText(r.Objects, "object"), state)
	}
	for _, k := range p.Kept {
		fmt.Fprintf(text, "forgotten bytes are in %s\n", placeText(k))
	}
	for _, f := range p.Found {
		fmt.Fprintf(text, "forgotten bytes are in %s\n", f)
	}

	state := "nothing that was forgotten is left"
	switch {
	case !p.OK():
		state = "forgotten bytes were found"
	case len(p.Kept) > 0:
		state = "forgotten bytes are in present files only"
	}
	fmt.Fprintf(text, "read %d objects, %s: %s\n", p.Objects, BytesText(p.Bytes), state)

	return text.String()
}

// forgetOnRemotes removes from all remotes the contents that were ever forgotten. It adds to receipt.Unremovable the
// contents that it cannot remove, and the remotes that do not answer.
func (er *erasure) forgetOnRemotes(ctx context.Context, r *Request, receipt *forget.Receipt) error {
	chunks, err := er.store.ForgottenContents().Chunks()
	if err != nil {
		return err
	}

	failed := false
	for _, name := range slices.Sorted(maps.Keys(er.registry.List())) {
		r.progress(Progress{What: "forgetting on " + name})
		if err := er.forgetOn(ctx, r, name, chunks, receipt); err != nil {
			if ctx.Err() != nil {
				return err
			}
			failed = true
			receipt.Unremovable = append(receipt.Unremovable, fmt.Sprintf("what remote %s has: %v; `amberfs forget --remotes` tries again", name, err))
		}
	}

	if err := endHandoffs(ctx, er.registry, receipt); err != nil {
		failed = true
		receipt.Unremovable = append(receipt.Unremovable, fmt.Sprintf("what was handed off: %v; `amberfs forget --remotes` tries again", err))
	}

	// The cache must be erased once more, because forgetOn has read objects from the remotes into it.
	if err := er.registry.EraseCache(); err != nil || failed {
		return err
	}

	return er.registry.SetMustForget(false)
}

// endHandoffs ends all handoffs of the store, and destroys their keys.
func endHandoffs(ctx context.Context, k *known.Registry, receipt *forget.Receipt) error {
	areas, err := known.Areas(k)
	for url, area := range areas {
		if e := area.Sweep(ctx, known.CacheOf(k), true); e != nil {
			err = errors.Join(err, e)
			continue
		}

		receipt.Handoffs = append(receipt.Handoffs, area.URL)
		err = errors.Join(err, known.SetArea(k, url, nil))
	}

	return err
}

// forgetOn removes the forgotten contents from one remote, and adds the result to the receipt. chunks has the hashes
// of the forgotten contents.
func (er *erasure) forgetOn(ctx context.Context, r *Request, name string, chunks map[cas.Hash]bool, receipt *forget.Receipt) error {
	target, err := er.registry.Remote(name)
	if err != nil {
		return err
	}

	if er.registry.ReadsFrom(target) {
		return errs.New(errs.Busy, "this store reads files from it, and would lose them; forget it in a store that has them")
	}

	old, rewritten := make(map[string]bool), er.store.ForgottenContents().RewrittenSnapshots()
	for id := range rewritten {
		old[id] = true
	}

	result, err := target.Forget(ctx, remote.ForgetOptions{Chunks: chunks, FormerIDs: old, Push: func(ctx context.Context, ref *remote.Ref, base string) error {
		if now, ok := rewritten[ref.ID]; ok {
			return er.pushRewritten(ctx, r, target, ref, now, base)
		}
		return er.resend(ctx, target, ref, base, chunks)
	}})
	if result != nil {
		var versions []forget.Version
		for _, v := range result.RemainingVersions {
			versions = append(versions, forget.Version(v))
		}
		receipt.Remotes = append(receipt.Remotes, forget.Remote{Name: name, Replaced: result.Replaced, Removed: result.RemovedObjects, Remaining: result.Remaining, Versions: versions})
	}
	if err != nil {
		return err
	}

	if result.ListError != nil {
		receipt.Unremovable = append(receipt.Unremovable, fmt.Sprintf("former versions in the bucket of remote %s, if it keeps any: %v", name, result.ListError))
	}
	if result.IsRegistry {
		receipt.Unremovable = append(receipt.Unremovable, fmt.Sprintf("layers without a tag in remote %s: the registry removes them", name))
	}

	return nil
}

// pushRewritten replaces a snapshot on a remote by the rewritten snapshot of this store, without the
// forgotten contents.
func (er *erasure) pushRewritten(ctx context.Context, r *Request, target *remote.Remote, ref *remote.Ref, rewritten snapshot.RewrittenSnapshot, base string) error {
	sent, err := rewritten.Workspace.Remotes().PreparePush(ctx, rewritten.Name)
	if err != nil {
		return err
	}
	defer sent.Release()

	p := remote.PushOptions{Ref: newRef(sent.Info, ref.Name, sent.ActorSets), Force: true, SendAll: base == "", Base: base,
		Mark: markFunc(sent.State, r.source, sent.ActorSets), ReadStored: er.readStored}
	p.Ref.Claim, p.Ref.Lineage, p.Ref.Expires = sent.Claim, sent.Lineage, ref.Expires
	_, err = target.Push(ctx, p)

	return err
}

// resend reads a snapshot from a remote and pushes it again. It is called for a snapshot that was not rewritten in
// this store, and that shares objects with a replaced snapshot. It fails if the snapshot has forgotten contents.
func (er *erasure) resend(ctx context.Context, target *remote.Remote, ref *remote.Ref, base string, chunks map[cas.Hash]bool) error {
	there := target.Snapshot(ref)
	src := tree.NewSource(pullSource{ctx, er.store, there}, nil, 16<<20)
	st, err := tree.Load(src, ref.StateHash())
	if err != nil {
		return err
	}

	mark := markFunc(st, src, ref.ActorSets)
	p := remote.PushOptions{Ref: *ref, Force: true, SendAll: base == "", Base: base, ReadStored: there.Stored,
		Mark: func(ctx context.Context, keep func(cas.Hash) bool) error {
			has := false
			err := mark(ctx, func(h cas.Hash) bool {
				has = has || chunks[h]
				return keep(h)
			})
			if has {
				err = errors.Join(err, errs.New(errs.Failed, "it is not in this store: pull it, forget the contents again, and push it"))
			}
			return err
		}}
	_, err = target.Push(ctx, p)

	return err
}

// searchRemotes searches the remotes for forgotten contents, and adds the places to a proof.
func (er *erasure) searchRemotes(ctx context.Context, r *Request, proof *forget.Proof) error {
	if len(proof.Receipts) == 0 {
		return nil
	}
	scan, _, err := er.store.ForgottenContents().Scanner()
	if err != nil {
		return err
	}

	for _, name := range slices.Sorted(maps.Keys(er.registry.List())) {
		r.progress(Progress{What: "verifying " + name})
		rem, err := er.registry.Remote(name)
		if err != nil {
			return explainRemoteError(name, err)
		}

		unread, former, err := rem.EachRecord(ctx, func(sn string, h cas.Hash, b []byte) error {
			proof.Objects, proof.Bytes = proof.Objects+1, proof.Bytes+int64(len(b))
			if scan.IsForgotten(h) || scan.Contains(b) {
				proof.Found = append(proof.Found, fmt.Sprintf("snapshot %s on remote %s", sn, name))
			}
			return nil
		})
		if err != nil {
			return explainRemoteError(name, err)
		}
		for _, v := range former {
			proof.Found = append(proof.Found, fmt.Sprintf("remote %s, perhaps: version %s of %s cannot be read", name, v.ID, v.Key))
		}
		if unread > 0 {
			proof.Found = append(proof.Found, fmt.Sprintf("remote %s, perhaps: %s that no snapshot needs cannot be read", name, plural(unread, "object", "objects")))
		}
	}

	slices.Sort(proof.Found)
	proof.Found = slices.Compact(proof.Found)

	return nil
}
