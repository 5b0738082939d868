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

// planSend decides which records are sent, and which objects of the base the ref names.
func (u *pushRun) planSend(ctx context.Context) error {
	seen := make(map[cas.Hash]struct{})
	merge := u.base != nil && len(u.base.Ref.Indexes) >= maxIndexes
	var inBase []cas.Hash // in a merge: the records that the base has
	err := u.options.Mark(ctx, func(h cas.Hash) bool {
		if _, ok := seen[h]; ok {
			return false
		}

		has := false
		if u.base != nil {
			_, has = u.baseIndex.Find(h)
		}
		if has && !merge {
			return false // the base also has all records that h refers to
		}

		seen[h] = struct{}{}
		if has {
			inBase = append(inBase, h)
		} else {
			u.toSend = append(u.toSend, h)
		}

		return true
	})
	if err != nil {
		return fmt.Errorf("walking over the snapshot: %w", err)
	}

	switch {
	case merge:
		u.planMerge(inBase)
	case u.base != nil:
		u.objects = append(u.objects, u.base.Ref.Objects...)
	}

	return nil
}

// planMerge plans a push that merges the indexes of its base. inBase has the records of the snapshot that the base
// has. planMerge keeps an object of the base if the object is large, and if the snapshot needs at least half of its
// bytes. The records that the snapshot needs from the other objects are sent again.
func (u *pushRun) planMerge(inBase []cas.Hash) {
	base := u.base
	liveBytes := make([]int64, len(base.Ref.Objects)) // bytes of live records
	for _, h := range inBase {
		e, _ := u.baseIndex.Find(h)
		liveBytes[e.Object] += int64(e.StoredSize)
	}

	newIndex := make(map[uint32]uint32) // the index of a kept object in the new list, by its index in the base's list
	for i, o := range base.Ref.Objects {
		if o.Size >= minReusedSize && 2*liveBytes[i] >= o.Size {
			newIndex[uint32(i)] = uint32(len(u.objects))
			u.objects = append(u.objects, o)
		}
	}

	for _, h := range inBase {
		e, _ := u.baseIndex.Find(h)
		if n, ok := newIndex[e.Object]; ok {
			e.Object = n
			u.reusedEntries = append(u.reusedEntries, e)
		} else {
			u.toSend = append(u.toSend, h)
		}
	}
}

// sendRecords sends the records in toSend. It sends each object as soon as the object is full, and the head last.
func (u *pushRun) sendRecords(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)
	var data, pages object.Pack

	for _, h := range u.toSend {
		rec, err := u.options.ReadStored(gctx, h)
		if err != nil {
			return errors.Join(fmt.Errorf("reading what is to be pushed: %w", err), g.Wait())
		}

		into := &data
		if rec.Kind == cas.KindTree {
			into = &pages
		}
		if len(into.Bytes) > 0 && len(into.Bytes)+len(rec.Bytes) > maxObjectSize {
			u.sendObject(gctx, g, into)
		}

		into.Add(h, rec)
	}

	if len(data.Bytes) > maxHeadDataBytes {
		u.sendObject(gctx, g, &data)
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}

	return u.sendHead(ctx, &data, &pages)
}

// sendObject sends the object p in the background, and empties p.
func (u *pushRun) sendObject(ctx context.Context, g *errgroup.Group, p *object.Pack) {
	number := u.reserveObject()
	u.addEntries(p.Entries, number)
	full := *p
	*p = object.Pack{Bytes: make([]byte, 0, maxObjectSize)} // the next object is as large, so its buffer need not grow
	g.Go(func() error { return u.upload(ctx, &full, number, false) })
}

// addEntries adds the records of an object to the index.
func (u *pushRun) addEntries(entries []object.Entry, number int) {
	for _, e := range entries {
		e.Object = uint32(number)
		u.sentEntries = append(u.sentEntries, e)
	}
}

// reserveObject adds an object without a name to the objects of the ref, and returns its number there. upload
// sets the name, which is the hash of the encrypted bytes.
func (u *pushRun) reserveObject() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.objects = append(u.objects, backend.Object{})
	return len(u.objects) - 1
}

// sendHead sends the head: the last object, with the index. If there are neither new records nor a merge, it sends
// nothing.
func (u *pushRun) sendHead(ctx context.Context, data, pages *object.Pack) error {
	base := u.base
	merged := base == nil || len(base.Ref.Indexes) >= maxIndexes
	if !merged {
		u.indexes = base.Ref.Indexes
		if len(u.toSend) == 0 {
			return nil
		}
	}

	data.Append(pages)
	number := u.reserveObject()
	u.addEntries(data.Entries, number)
	section := data.EncodeIndex(append(u.sentEntries, u.reusedEntries...))
	section.Object = number
	u.indexes = append([]object.Section{section}, u.indexes...)
	return u.upload(ctx, data, number, true)
}

// upload sends the object with a number, unless the remote has it from an earlier push that was interrupted. It
// puts the head into the cache, because the next push reads the index in it.
func (u *pushRun) upload(ctx context.Context, p *object.Pack, number int, isHead bool) error {
	encrypted, err := u.format.encrypt(p.Bytes)
	if err != nil {
		return err
	}

	o := backend.ObjectOf(encrypted)
	if u.condemnedObjects[o.Name] {
		// A collection is about to remove the object with these bytes. One more byte gives the object another name.
		p.Bytes = append(p.Bytes, 0)
		return u.upload(ctx, p, number, isHead)
	}

	// For a small object, a request whether it exists takes as long as sending it, so it is sent without such a
	// request.
	exists := false
	if o.Size >= minReusedSize && !u.options.SendAll && len(u.format.Recipients) == 0 {
		info, err := u.r.b.Stat(ctx, o.Key())
		if err != nil && !errors.Is(err, backend.ErrNotFound) {
			return err
		}
		exists = err == nil && info.Size == o.Size
	}

	if !exists {
		if err := u.r.b.Put(ctx, o.Key(), encrypted, backend.PutOptions{}); err != nil {
			return err
		}
	}

	if isHead {
		u.r.o.Cache.Put(o, 0, encrypted)
	}

	u.mu.Lock()
	defer u.mu.Unlock()

	u.objects[number] = o
	u.recordsSent += len(p.Entries)
	if !exists {
		u.objectsSent++
		u.bytesSent += o.Size
	}

	if u.options.Progress != nil {
		u.options.Progress(u.recordsSent, len(u.toSend), u.bytesSent)
	}

	return nil
}
