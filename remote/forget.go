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

// A Forget has the arguments of Remote.Forget.
type Forget struct {
	Chunks map[cas.Hash]bool // the records that must not stay
	Old    map[string]bool   // former ids of snapshots whose trees the store has changed since
	// Push pushes the snapshot of a ref again, with its new tree, and replaces the ref. base is the name of
	// a snapshot that this Forget has pushed already, or "" for a push without a base. After an error the
	// ref is unchanged.
	Push func(ctx context.Context, ref *object.Ref, base string) error
}

// A Forgot is the result of Remote.Forget.
type Forgot struct {
	Replaced []string          // names of the snapshots that were pushed again
	Left     map[string]string // names of the snapshots that still have the records → the reason
	Removed  int               // number of removed objects
	Versions []backend.Version // former versions of removed objects that could not be removed
	Unlisted error             // why former versions cannot be listed
	Registry bool              // the remote is a registry, which removes objects itself
}

// Forget removes records from the remote:
//
//  1. It writes a condemned mark with all objects of the snapshots that have one of the records. So pushes
//     that begin later do not use these objects.
//  2. It pushes these snapshots again.
//  3. It removes the objects of the mark that no ref names now.
//
// Unlike a collection, it does not wait between these steps. If a push that began before step 1 writes its
// ref during step 3, the snapshot lacks objects: Forgot.Left reports it. Forget also removes objects that no ref
// names, if they are older than maxMarkAge. If it is interrupted, a collection removes the objects of the
// mark.
func (r *Remote) Forget(ctx context.Context, o Forget) (*Forgot, error) {
	f := &forgetRun{r: r, o: o, doomed: make(map[string]bool), done: &Forgot{Replaced: []string{}, Left: make(map[string]string), Registry: r.b.Collects()}}
	refs, err := f.findRefs(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.findUnused(ctx); err != nil {
		return nil, err
	}
	if len(refs)+len(f.doomed) == 0 {
		return f.done, f.removeVersions(ctx)
	}

	mark := uuid.NewString()
	if err := f.writeMark(ctx, condemnedPrefix+mark); err != nil {
		return nil, err
	}

	base := ""
	for _, ref := range refs {
		if err := o.Push(ctx, ref, base); err != nil {
			if ctx.Err() != nil || errors.Is(err, backend.ErrAway) {
				return f.done, err
			}
			f.done.Left[ref.Name] = err.Error()
			continue
		}
		base = ref.Name
		f.done.Replaced = append(f.done.Replaced, ref.Name)
	}

	if err := f.remove(ctx, mark); err != nil {
		return f.done, err
	}

	return f.done, f.removeVersions(ctx)
}

// removeVersions removes the former versions of all removed objects: nobody can read which records they have.
func (f *forgetRun) removeVersions(ctx context.Context) error {
	if len(f.o.Chunks) == 0 {
		return nil
	}

	all, err := backend.FormerVersions(ctx, f.r.b, "obj/")
	if errors.Is(err, backend.ErrDenied) {
		f.done.Unlisted = err
		return nil
	}
	if err != nil {
		return err
	}

	f.done.Versions, err = backend.DeleteVersions(ctx, f.r.b, all)
	return err
}

// A forgetRun is one call of Forget.
type forgetRun struct {
	r      *Remote
	o      Forget
	doomed map[string]bool // names of objects to remove, unless a ref names them at the end
	used   map[string]bool // names of objects that refs named at the beginning
	done   *Forgot
}

// findRefs returns the refs to replace, oldest first. It adds their objects to doomed.
func (f *forgetRun) findRefs(ctx context.Context) (replace []*object.Ref, err error) {
	all, err := allRefs(ctx, f.r)
	if err != nil {
		return nil, err
	}

	bad, err := objectsWith(ctx, f.r, all, f.o.Chunks)
	if err != nil {
		return nil, err
	}

	f.used = make(map[string]bool)
	for _, ref := range all {
		isOld := f.o.Old[ref.ID] || slices.ContainsFunc(ref.Objects, func(o backend.Object) bool { return bad[o.Name] })
		if isOld {
			replace = append(replace, ref)
		}

		for _, o := range ref.Objects {
			f.used[o.Name] = true
			if isOld {
				f.doomed[o.Name] = true
			}
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
	bad, prefixes := make(map[string]bool), make(map[object.Prefix]bool)
	for h := range chunks {
		prefixes[object.Prefix(h[:])] = true
	}

	for _, ref := range refs {
		x, err := r.Snapshot(ref).Load(ctx)
		if err != nil {
			return nil, err
		}

		for _, e := range slices.Concat(x.Entries(cas.KindData), x.Entries(cas.KindTree)) {
			if prefixes[e.Prefix] {
				bad[ref.Objects[e.Object].Name] = true
			}
		}
	}

	return bad, nil
}

// findUnused adds to doomed the objects that no ref and no hold names and that are older than any running
// push. They may have one of the records: without a ref, they have no index, so Forget cannot check.
func (f *forgetRun) findUnused(ctx context.Context) error {
	if f.r.b.Collects() || len(f.o.Chunks) == 0 {
		return nil
	}
	if err := f.r.b.Put(ctx, nowKey, nil, backend.PutOptions{}); err != nil {
		return err
	}
	now, err := f.r.b.Stat(ctx, nowKey)
	if err != nil {
		return err
	}

	holds := &gcRun{r: f.r, now: now.Modified, live: make(map[string]bool)}
	if err := holds.readHolds(ctx); err != nil {
		return err
	}

	return f.r.b.List(ctx, "obj/", func(i backend.Info) error {
		if name := i.Key[len("obj/"):]; !f.used[name] && !holds.live[name] && now.Modified.Sub(i.Modified) > maxMarkAge {
			f.doomed[name] = true
		}
		return nil
	})
}

// writeMark writes a mark of the doomed objects.
func (f *forgetRun) writeMark(ctx context.Context, key string) error {
	if f.r.b.Collects() {
		return nil
	}
	c := &gcRun{r: f.r}
	return c.writeMark(ctx, key, slices.Sorted(maps.Keys(f.doomed)))
}

// remove removes the doomed objects that no ref needs now, and completes the mark.
func (f *forgetRun) remove(ctx context.Context, mark string) error {
	if f.r.b.Collects() {
		return nil
	}
	if err := f.keepNeeded(ctx, func(string, string) {}); err != nil {
		return err
	}

	keys := make([]string, 0, len(f.doomed))
	for name := range f.doomed {
		keys = append(keys, "obj/"+name)
	}
	if err := backend.DeleteAll(ctx, f.r.b, keys); err != nil {
		return err
	}
	f.done.Removed = len(keys)

	// A push that read the marks before this Forget wrote its mark may have ended since the call above.
	if err := f.keepNeeded(ctx, func(ref, object string) {
		f.done.Left[ref] = fmt.Sprintf("it was pushed meanwhile, and lacks object %s: push it again with --force --full", object)
	}); err != nil {
		return err
	}
	if err := f.writeMark(ctx, removedPrefix+mark); err != nil {
		return err
	}

	return f.r.b.Delete(ctx, condemnedPrefix+mark)
}

// keepNeeded removes the objects that refs name from doomed, and calls needed for each of them.
func (f *forgetRun) keepNeeded(ctx context.Context, needed func(ref, object string)) error {
	refs, err := allRefs(ctx, f.r)
	if err != nil {
		return err
	}

	for _, ref := range refs {
		for _, o := range ref.Objects {
			if f.doomed[o.Name] {
				delete(f.doomed, o.Name)
				needed(ref.Name, o.Name)
			}
		}
	}

	return nil
}

// Contents calls fn once for each record on the remote, with its hash, its plain bytes, and the name of a
// snapshot with the record. It returns what it cannot read, because no ref names it: the number of objects, and
// the former versions of removed objects.
func (r *Remote) Contents(ctx context.Context, fn func(snapshot string, h cas.Hash, b []byte) error) (unread int, former []backend.Version, err error) {
	used, seen := make(map[string]bool), make(map[recordPlace]bool)
	refs, err := allRefs(ctx, r)
	if err != nil {
		return 0, nil, err
	}

	for _, ref := range refs {
		for _, o := range ref.Objects {
			used[o.Name] = true
		}
		if err := r.Snapshot(ref).contents(ctx, seen, fn); err != nil {
			return 0, nil, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}
	if r.b.Collects() {
		return 0, nil, nil
	}

	former, err = backend.FormerVersions(ctx, r.b, "obj/")
	if err != nil {
		return 0, nil, err
	}

	return unread, former, r.b.List(ctx, "obj/", func(i backend.Info) error {
		if !used[i.Key[len("obj/"):]] {
			unread++
		}
		return nil
	})
}

// A recordPlace is the place of a record on the remote.
type recordPlace struct {
	object string
	offset uint32
}

// contents does the work of Contents for one snapshot. seen has the records that fn was called for.
func (s *Snapshot) contents(ctx context.Context, seen map[recordPlace]bool, fn func(snapshot string, h cas.Hash, b []byte) error) error {
	x, err := s.Load(ctx)
	if err != nil {
		return err
	}

	var plain []byte
	for _, e := range slices.Concat(x.Entries(cas.KindData), x.Entries(cas.KindTree)) {
		at := recordPlace{s.Ref.Objects[e.Object].Name, e.Offset}
		if seen[at] {
			continue
		}
		seen[at] = true

		b, err := s.read(ctx, int(e.Object), false, int64(e.Offset), int64(e.Stored), s.ahead.next(&e))
		if err != nil {
			return err
		}
		if plain, err = s.r.expand.ExpandUnchecked(cas.StoredObject{Kind: e.Kind, Flags: e.Flags, PlainSize: int(e.Plain), Bytes: b}, plain); err != nil {
			return fmt.Errorf("object %s: %w: %w", at.object, cas.ErrDamaged, err)
		}
		if err := fn(s.Ref.Name, cas.Sum(plain), plain); err != nil {
			return err
		}
	}

	return nil
}
