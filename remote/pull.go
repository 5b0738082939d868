package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/remote/cache"
	"github.com/amberfs/amberfs/remote/object"
)

type Pull struct {
	// Mark is Push.Mark, with a source that also reads from the snapshot.
	Mark func(ctx context.Context, keep func(cas.Hash) bool) error
	Has  func(cas.Hash) (bool, error)
	Put  func(kind cas.Kind, b []byte) (cas.Hash, error)
	// Progress gets the stored bytes, read and in all. May be nil.
	Progress func(done, total int64)
}

// Pull brings everything that the snapshot needs into a store. Data that is there
// already is not read again, so one that was interrupted continues where it stopped.
//
// An object that is in the store may lack what is below it: it may be garbage that
// a collection has begun to remove. So the walk covers all of the tree, and an
// object is put only after those that it refers to.
func (s *Snapshot) Pull(ctx context.Context, p Pull) error {
	if err := s.Fetch(ctx, cas.KindTree); err != nil {
		return fmt.Errorf("reading the tree: %w", err)
	}
	data, pages, err := s.lacking(ctx, p)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, w := range slices.Concat(data, pages) {
		total += int64(w.entry.Stored)
	}
	done := meter{report: p.Progress, total: total}
	if err := s.bring(ctx, data, p, &done); err != nil {
		return err
	}
	slices.Reverse(pages) // the walk has met them from the top
	return s.putAll(ctx, pages, p, &done)
}

type want struct {
	hash  cas.Hash
	entry object.Entry
}

func (s *Snapshot) lacking(ctx context.Context, p Pull) (data, pages []want, err error) {
	index, err := s.Load(ctx)
	if err != nil {
		return nil, nil, err
	}
	seen := make(map[cas.Hash]struct{})
	var failed error
	err = p.Mark(ctx, func(h cas.Hash) bool {
		if _, ok := seen[h]; ok {
			return false
		}
		seen[h] = struct{}{}
		here, err := p.Has(h)
		if err != nil {
			failed = errors.Join(failed, err)
		}
		if here || err != nil {
			return true
		}
		e, ok := index.Find(h)
		if !ok {
			failed = fmt.Errorf("object %s: %w", h, ErrIncomplete)
			return false
		}
		if e.Kind == cas.KindTree {
			pages = append(pages, want{h, e})
		} else {
			data = append(data, want{h, e})
		}
		return true
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, nil, fmt.Errorf("walking over the snapshot: %w", err)
	}
	return data, pages, nil
}

// bring reads chunks in the order in which they lie, several runs at once.
func (s *Snapshot) bring(ctx context.Context, data []want, p Pull, done *meter) error {
	slices.SortFunc(data, func(a, b want) int { return object.ByPlace(a.entry, b.entry) })
	entries := make([]object.Entry, len(data))
	for i, w := range data {
		entries[i] = w.entry
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(uploads)
	for _, run := range runs(entries, cache.BlockSize) {
		n := 0
		for n < len(data) && data[n].entry.Object == run.object && data[n].entry.End() <= run.end {
			n++
		}
		part := data[:n]
		data = data[n:]
		g.Go(func() error {
			if _, err := s.read(ctx, int(run.object), false, run.off, run.end-run.off, 0); err != nil {
				return err
			}
			return s.putAll(ctx, part, p, done)
		})
	}
	return g.Wait()
}

func (s *Snapshot) putAll(ctx context.Context, all []want, p Pull, done *meter) error {
	for _, w := range all {
		b, err := s.Get(ctx, w.hash, nil)
		if err != nil {
			return err
		}
		if _, err := p.Put(w.entry.Kind, b); err != nil {
			return err
		}
		done.add(int64(w.entry.Stored))
	}
	return nil
}
