package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

// ForgetOptions are the arguments of Remote.Forget.
type ForgetOptions struct {
	Chunks    map[cas.Hash]bool // the records to remove
	FormerIDs map[string]bool   // ids that snapshots had before the store removed contents from their trees
	// Push pushes the snapshot of a ref again, with its new tree, and replaces the ref. base is the name of
	// a snapshot that this call of Forget has pushed already, or "" for a push without a base. After an error the
	// ref is unchanged.
	Push func(ctx context.Context, ref *object.Ref, base string) error
}

// A ForgetResult is the result of Remote.Forget.
type ForgetResult struct {
	Replaced          []string          // names of the snapshots that were pushed again
	Remaining         map[string]string // names of the snapshots that still have one of the records → the reason
	RemovedObjects    int               // number of removed objects
	RemainingVersions []backend.Version // former versions of removed objects that could not be removed
	ListError         error             // why former versions cannot be listed; nil if they can
	IsRegistry        bool              // the remote is a registry, which removes objects itself
}

// Forget removes records from the remote:
//
//  1. It writes a condemned mark with all objects of the snapshots that have one of the records. So pushes
//     that begin later do not use these objects.
//  2. It pushes these snapshots again.
//  3. It removes the objects of the mark that no ref names now.
//
// Unlike a collection, Forget does not wait between these steps. If a push that began before step 1 writes its ref
// during step 3, the pushed snapshot lacks objects. ForgetResult.Remaining names such snapshots. Forget also removes
// objects that no ref names, if they are older than maxMarkAge. If Forget is interrupted, a collection removes the
// objects of the mark.
func (r *Remote) Forget(ctx context.Context, o ForgetOptions) (*ForgetResult, error) {
	f := &forgetRun{r: r, gc: &gcRun{r: r, liveObjects: make(map[string]bool)}, options: o, toRemove: make(map[string]bool), result: &ForgetResult{Replaced: []string{}, Remaining: make(map[string]string), IsRegistry: r.b.IsRegistry()}}
	refs, err := f.findRefs(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.findUnused(ctx); err != nil {
		return nil, err
	}
	if len(refs)+len(f.toRemove) == 0 {
		return f.result, f.removeVersions(ctx)
	}

	markID := uuid.NewString()
	if err := f.writeMark(ctx, condemnedPrefix+markID); err != nil {
		return nil, err
	}

	base := ""
	for _, ref := range refs {
		if err := o.Push(ctx, ref, base); err != nil {
			if ctx.Err() != nil || errors.Is(err, backend.ErrAway) {
				return f.result, err
			}
			f.result.Remaining[ref.Name] = err.Error()
			continue
		}
		base = ref.Name
		f.result.Replaced = append(f.result.Replaced, ref.Name)
	}

	if err := f.removeObjects(ctx, markID); err != nil {
		return f.result, err
	}

	return f.result, f.removeVersions(ctx)
}

// removeVersions removes the former versions of all removed objects, because they may have one of the records. No
// index says which records they have.
func (f *forgetRun) removeVersions(ctx context.Context) error {
	if len(f.options.Chunks) == 0 {
		return nil
	}

	all, err := backend.FormerVersions(ctx, f.r.b, "obj/")
	if errors.Is(err, backend.ErrDenied) {
		f.result.ListError = err
		return nil
	}
	if err != nil {
		return err
	}

	f.result.RemainingVersions, err = backend.DeleteVersions(ctx, f.r.b, all)
	return err
}

// A forgetRun is one call of Forget.
type forgetRun struct {
	r        *Remote
	gc       *gcRun // finds objects that nothing names, and writes the marks
	options  ForgetOptions
	toRemove map[string]bool // names of objects to remove, unless a ref names them at the end
	result   *ForgetResult
}

// findRefs returns the refs to replace, the oldest first. It adds the objects of these refs to toRemove, and those of
// all refs to the live objects of gc.
func (f *forgetRun) findRefs(ctx context.Context) (replace []*object.Ref, err error) {
	all, err := allRefs(ctx, f.r)
	if err != nil {
		return nil, err
	}

	affected, err := objectsWith(ctx, f.r, all, f.options.Chunks)
	if err != nil {
		return nil, err
	}

	for _, ref := range all {
		f.gc.markLive(ref.Objects)
		if !f.options.FormerIDs[ref.ID] && !slices.ContainsFunc(ref.Objects, func(o backend.Object) bool { return affected[o.Name] }) {
			continue
		}

		replace = append(replace, ref)
		for _, o := range ref.Objects {
			f.toRemove[o.Name] = true
		}
	}

	slices.SortFunc(replace, func(a, b *object.Ref) int { return a.Created.Compare(b.Created) })
	return replace, nil
}

// allRefs returns all refs. It fails if one cannot be read.
func allRefs(ctx context.Context, r *Remote) (all []*object.Ref, err error) {
	err = r.readRefs(ctx, true, func(_ string, ref *object.Ref, err error) error {
		all = append(all, ref)
		return err
	})
	return all, err
}

// objectsWith returns the names of the objects that have one of the records. It compares prefixes of hashes, so
// it may return an object without such a record.
func objectsWith(ctx context.Context, r *Remote, refs []*object.Ref, chunks map[cas.Hash]bool) (map[string]bool, error) {
	names, prefixes := make(map[string]bool), make(map[object.Prefix]bool)
	for h := range chunks {
		prefixes[object.Prefix(h[:])] = true
	}

	for _, ref := range refs {
		x, err := r.Snapshot(ref).LoadIndex(ctx)
		if err != nil {
			return nil, err
		}

		for _, e := range slices.Concat(x.Entries(cas.KindData), x.Entries(cas.KindTree)) {
			if prefixes[e.Prefix] {
				names[ref.Objects[e.Object].Name] = true
			}
		}
	}

	return names, nil
}

// findUnused adds to toRemove the objects that no ref and no hold names, if they are older than any running push.
// Such an object may have one of the records. Forget cannot check, because without a ref there is no index.
func (f *forgetRun) findUnused(ctx context.Context) error {
	if f.r.b.IsRegistry() || len(f.options.Chunks) == 0 {
		return nil
	}
	if err := f.r.b.Put(ctx, nowKey, nil, backend.PutOptions{}); err != nil {
		return err
	}
	now, err := f.r.b.Stat(ctx, nowKey)
	if err != nil {
		return err
	}

	f.gc.serviceTime = now.Modified
	if err := f.gc.sweepHolds(ctx); err != nil {
		return err
	}

	return f.r.b.List(ctx, "obj/", func(i backend.Info) error {
		if name := i.Key[len("obj/"):]; !f.gc.liveObjects[name] && now.Modified.Sub(i.Modified) > maxMarkAge {
			f.toRemove[name] = true
		}
		return nil
	})
}

// writeMark writes a mark with the objects in toRemove.
func (f *forgetRun) writeMark(ctx context.Context, key string) error {
	return f.gc.writeMark(ctx, key, slices.Sorted(maps.Keys(f.toRemove)))
}

// removeObjects removes the objects in toRemove that no ref names now. Then it replaces the condemned mark by a
// removed mark.
func (f *forgetRun) removeObjects(ctx context.Context, markID string) error {
	if f.r.b.IsRegistry() {
		return nil
	}
	if err := f.keepNeeded(ctx, func(string, string) {}); err != nil {
		return err
	}

	keys := make([]string, 0, len(f.toRemove))
	for name := range f.toRemove {
		keys = append(keys, backend.Object{Name: name}.Key())
	}
	if err := backend.DeleteAll(ctx, f.r.b, keys); err != nil {
		return err
	}
	f.result.RemovedObjects = len(keys)

	// A push that began before the new mark was written may have written its ref since the first check. Its snapshot
	// lacks objects, so report it.
	if err := f.keepNeeded(ctx, func(ref, object string) {
		f.result.Remaining[ref] = fmt.Sprintf("it was pushed meanwhile, and lacks object %s: push it again with --force --full", object)
	}); err != nil {
		return err
	}
	if err := f.writeMark(ctx, removedPrefix+markID); err != nil {
		return err
	}

	return f.r.b.Delete(ctx, condemnedPrefix+markID)
}

// keepNeeded removes from toRemove the objects that refs name now. It passes the name of each of these objects, and
// the name of a ref that names it, to the function report.
func (f *forgetRun) keepNeeded(ctx context.Context, report func(ref, object string)) error {
	refs, err := allRefs(ctx, f.r)
	if err != nil {
		return err
	}

	for _, ref := range refs {
		for _, o := range ref.Objects {
			if f.toRemove[o.Name] {
				delete(f.toRemove, o.Name)
				report(ref.Name, o.Name)
			}
		}
	}

	return nil
}

// EachRecord calls fn once for each record on the remote, with its hash, its plain bytes, and the name of a snapshot
// with the record. It cannot read objects that no ref names, and former versions of removed objects. So it returns
// the number of these objects, and these versions.
func (r *Remote) EachRecord(ctx context.Context, fn func(snapshot string, h cas.Hash, b []byte) error) (unreadObjects int, versions []backend.Version, err error) {
	used, seen := make(map[string]bool), make(map[recordPlace]bool)
	refs, err := allRefs(ctx, r)
	if err != nil {
		return 0, nil, err
	}

	for _, ref := range refs {
		for _, o := range ref.Objects {
			used[o.Name] = true
		}
		if err := r.Snapshot(ref).eachRecord(ctx, seen, fn); err != nil {
			return 0, nil, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}
	if r.b.IsRegistry() {
		return 0, nil, nil
	}

	versions, err = backend.FormerVersions(ctx, r.b, "obj/")
	if err != nil {
		return 0, nil, err
	}

	return unreadObjects, versions, r.b.List(ctx, "obj/", func(i backend.Info) error {
		if !used[i.Key[len("obj/"):]] {
			unreadObjects++
		}
		return nil
	})
}

// A recordPlace is the place of a record on the remote.
type recordPlace struct {
	object string
	offset uint32
}

// eachRecord does the work of Remote.EachRecord for one snapshot. seen has the places of the records for which fn was
// called already.
func (s *Snapshot) eachRecord(ctx context.Context, seen map[recordPlace]bool, fn func(snapshot string, h cas.Hash, b []byte) error) error {
	x, err := s.LoadIndex(ctx)
	if err != nil {
		return err
	}

	var plain []byte
	for _, e := range slices.Concat(x.Entries(cas.KindData), x.Entries(cas.KindTree)) {
		place := recordPlace{s.Ref.Objects[e.Object].Name, e.Offset}
		if seen[place] {
			continue
		}
		seen[place] = true

		b, err := s.read(ctx, int(e.Object), false, int64(e.Offset), int64(e.StoredSize), s.readAhead.advance(&e))
		if err != nil {
			return err
		}
		if plain, err = s.r.expander.ExpandUnchecked(cas.StoredObject{Kind: e.Kind, Flags: e.Flags, PlainSize: int(e.PlainSize), Bytes: b}, plain); err != nil {
			return fmt.Errorf("object %s: %w: %w", place.object, cas.ErrDamaged, err)
		}
		if err := fn(s.Ref.Name, cas.Sum(plain), plain); err != nil {
			return err
		}
	}

	return nil
}
