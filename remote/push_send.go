package remote

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/remote/object"
)

func (u *pushing) plan(ctx context.Context) error {
	seen := make(map[cas.Hash]struct{})
	merge := u.base != nil && len(u.base.Ref.Indexes) >= maxIndexes
	var there []cas.Hash // of a merge: what the base has
	err := u.p.Mark(ctx, func(h cas.Hash) bool {
		if _, ok := seen[h]; ok {
			return false
		}
		has := false
		if u.base != nil {
			_, has = u.there.Find(h)
		}
		if has && !merge {
			return false
		}
		seen[h] = struct{}{}
		if has {
			there = append(there, h)
		} else {
			u.missing = append(u.missing, h)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("walking over the snapshot: %w", err)
	}
	switch {
	case merge:
		u.merge(there)
	case u.base != nil:
		u.objects = append(u.objects, u.base.Ref.Objects...)
	}
	return nil
}

// merge keeps objects of the base that are large and at least half in use. What is in the others
// is sent again.
func (u *pushing) merge(there []cas.Hash) {
	base := u.base
	alive := make([]int64, len(base.Ref.Objects))
	for _, h := range there {
		e, _ := u.there.Find(h)
		alive[e.Object] += int64(e.Stored)
	}
	number := make(map[uint32]uint32) // of a kept object, in the new list
	for i, o := range base.Ref.Objects {
		if o.Size >= smallest && 2*alive[i] >= o.Size {
			number[uint32(i)] = uint32(len(u.objects))
			u.objects = append(u.objects, o)
		}
	}
	for _, h := range there {
		e, _ := u.there.Find(h)
		if n, ok := number[e.Object]; ok {
			e.Object = n
			u.carried = append(u.carried, e)
		} else {
			u.missing = append(u.missing, h)
		}
	}
}

// send writes the objects: full ones while they fill up, the head at last.
func (u *pushing) send(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	var data, pages object.Pack
	for _, h := range u.missing {
		rec, err := u.p.Stored(gctx, h)
		if err != nil {
			return errors.Join(fmt.Errorf("reading what is to be pushed: %w", err), g.Wait())
		}
		into := &data
		if rec.Kind == cas.KindTree {
			into = &pages
		}
		if len(into.Bytes) > 0 && len(into.Bytes)+len(rec.Bytes) > objectSize {
			u.cut(gctx, g, into)
		}
		into.Add(h, rec)
	}
	if len(data.Bytes) > smallData {
		u.cut(gctx, g, &data)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return u.head(ctx, &data, &pages)
}

func (u *pushing) cut(ctx context.Context, g *errgroup.Group, p *object.Pack) {
	place := u.place()
	u.index(p.Entries, place)
	full := *p
	*p = object.Pack{Bytes: make([]byte, 0, objectSize)} // it grows no more: the next one is as large
	g.Go(func() error { return u.upload(ctx, &full, place, false) })
}

func (u *pushing) index(entries []object.Entry, place int) {
	for _, e := range entries {
		e.Object = uint32(place)
		u.entries = append(u.entries, e)
	}
}

// place adds an object to the list whose name is known once it is encrypted.
func (u *pushing) place() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects = append(u.objects, backend.Object{})
	return len(u.objects) - 1
}

// head sends the last object, with the index. A push without new objects sends none.
func (u *pushing) head(ctx context.Context, data, pages *object.Pack) error {
	base := u.base
	merged := base == nil || len(base.Ref.Indexes) >= maxIndexes
	if !merged {
		u.indexes = base.Ref.Indexes
		if len(u.missing) == 0 {
			return nil
		}
	}
	data.Append(pages)
	place := u.place()
	u.index(data.Entries, place)
	section := data.EncodeIndex(append(u.entries, u.carried...))
	section.Object = place
	u.indexes = append([]object.Section{section}, u.indexes...)
	return u.upload(ctx, data, place, true)
}

// upload writes an object, if it is not there: an earlier try may have sent it. The head
// is kept in the cache, since the next push reads its index.
func (u *pushing) upload(ctx context.Context, p *object.Pack, place int, head bool) error {
	encrypted, err := u.format.encrypt(p.Bytes)
	if err != nil {
		return err
	}
	o := backend.Named(encrypted)
	if u.condemned[o.Name] {
		// With the same bytes it would have the name of an object that is about to be removed.
		p.Bytes = append(p.Bytes, 0)
		return u.upload(ctx, p, place, head)
	}
	// For a small object, asking costs as much as sending.
	there := false
	if o.Size >= smallest && !u.p.Full && len(u.format.Recipients) == 0 {
		info, err := u.r.b.Stat(ctx, o.Key())
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		there = err == nil && info.Size == o.Size
	}
	if !there {
		if err := u.r.b.Put(ctx, o.Key(), encrypted, backend.PutOptions{}); err != nil {
			return err
		}
	}
	if head {
		u.r.o.Cache.Put(o, 0, encrypted)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects[place] = o
	u.parts += len(p.Entries)
	if !there {
		u.sent++
		u.bytes += o.Size
	}
	if u.p.Progress != nil {
		u.p.Progress(u.parts, len(u.missing), u.bytes)
	}
	return nil
}
