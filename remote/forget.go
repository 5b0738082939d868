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
	Old    map[string]bool   // ids of snapshots that have other trees now
	// Push sends the snapshot of a ref again, with its new tree, in place of the ref. base is the name of a
	// snapshot that was sent before. If it is empty, all records are sent. An error leaves the ref as it is.
	Push func(ctx context.Context, ref *object.Ref, base string) error
}

// A Forgot is the result of Remote.Forget.
type Forgot struct {
	Replaced []string          // the snapshots that were sent again
	Left     map[string]string // the snapshots that still have the records, and why
	Removed  int               // number of removed objects
	Versions bool              // the bucket keeps versions, also of what was removed
	Registry bool              // the remote is a registry, which removes objects itself
}

// Forget removes records from the remote. It replaces each snapshot that needs an object with one of the
// records, and then removes these objects, and all that only the replaced snapshots had. It does not wait
// as a collection does: it writes a mark, so that pushes that begin afterwards do not use the objects, and
// a push that ended meanwhile is in Forgot.Left. Objects that no snapshot needs are removed if they are
// older than maxMarkAge. If Forget is interrupted, a collection removes the objects of its mark.
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
		return f.done, nil
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

	f.done.Versions, err = backend.KeepsVersions(ctx, r.b)
	return f.done, err
}

// A forgetRun is one call of Forget.
type forgetRun struct {
	r      *Remote
	o      Forget
	doomed map[string]bool // names of objects to remove, unless a ref that stays needs them
	used   map[string]bool // names of objects that refs need
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

// objectsWith returns the names of the objects of refs that have one of the records.
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

// findUnused adds the objects that no ref and no hold needs and no push can be about to use. A push that did not
// end can have left a record in them, which nobody can read to find out.
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

	// A push that read the marks before may have ended meanwhile.
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

// keepNeeded takes the objects that refs need out of doomed, and calls needed for each.
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

// Contents calls fn with the hash and the plain bytes of every record on the remote, each once, and with
// the name of a snapshot whose objects have it. It returns the number of objects that no snapshot needs, which cannot be
// read.
func (r *Remote) Contents(ctx context.Context, fn func(snapshot string, h cas.Hash, b []byte) error) (unread int, err error) {
	used, seen := make(map[string]bool), make(map[place]bool)
	refs, err := allRefs(ctx, r)
	if err != nil {
		return 0, err
	}

	for _, ref := range refs {
		for _, o := range ref.Objects {
			used[o.Name] = true
		}
		if err := r.Snapshot(ref).contents(ctx, seen, fn); err != nil {
			return 0, fmt.Errorf("snapshot %s: %w", ref.Name, err)
		}
	}
	if r.b.Collects() {
		return 0, nil
	}

	return unread, r.b.List(ctx, "obj/", func(i backend.Info) error {
		if !used[i.Key[len("obj/"):]] {
			unread++
		}
		return nil
	})
}

// A place is the place of a record in an object.
type place struct {
	object string
	offset uint32
}

func (s *Snapshot) contents(ctx context.Context, seen map[place]bool, fn func(snapshot string, h cas.Hash, b []byte) error) error {
	x, err := s.Load(ctx)
	if err != nil {
		return err
	}

	var plain []byte
	for _, e := range slices.Concat(x.Entries(cas.KindData), x.Entries(cas.KindTree)) {
		at := place{s.Ref.Objects[e.Object].Name, e.Offset}
		if seen[at] {
			continue
		}
		seen[at] = true

		b, err := s.read(ctx, int(e.Object), false, int64(e.Offset), int64(e.Stored), s.ahead.next(&e))
		if err != nil {
			return err
		}
		if plain, err = s.r.expand.Plain(cas.Stored{Kind: e.Kind, Flags: e.Flags, Plain: int(e.Plain), Bytes: b}, plain); err != nil {
			return fmt.Errorf("object %s: %w: %w", at.object, cas.ErrDamaged, err)
		}
		if err := fn(s.Ref.Name, cas.Sum(plain), plain); err != nil {
			return err
		}
	}

	return nil
}
