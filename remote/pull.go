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

// PullOptions are the arguments of Snapshot.Pull.
type PullOptions struct {
	// Mark does what PushOptions.Mark does. If the store lacks a page, Mark must read it from the snapshot.
	Mark func(ctx context.Context, keep func(cas.Hash) bool) error
	Has  func(cas.Hash) (bool, error)                    // such as cas.Store.Has
	Put  func(kind cas.Kind, b []byte) (cas.Hash, error) // such as cas.Store.Put
	// Progress is called with the number of bytes of records that were copied, and of all records to copy. May
	// be nil.
	Progress func(done, total int64)
}

// Pull copies all records that the snapshot needs into a store. It does not read data that the store
// has, so a pull that was interrupted continues where it stopped.
//
// The store may have a page without the records that the page refers to: the page may be garbage
// that a collection has begun to remove. So the walk covers the whole tree, and a page is put into
// the store only after the records that it refers to.
func (s *Snapshot) Pull(ctx context.Context, p PullOptions) error {
	if err := s.Fetch(ctx, cas.KindTree); err != nil {
		return fmt.Errorf("reading the tree: %w", err)
	}

	data, pages, err := s.listMissing(ctx, p)
	if err != nil {
		return err
	}

	total := int64(0)
	for _, w := range slices.Concat(data, pages) {
		total += int64(w.entry.StoredSize)
	}

	progress := meter{report: p.Progress, total: total}
	if err := s.pullData(ctx, data, p, &progress); err != nil {
		return err
	}

	slices.Reverse(pages) // the walk found each page before the pages that the page refers to; these are stored first

	return s.putItems(ctx, pages, p, &progress)
}

// A pullItem is a record that the store lacks, and its place on the remote.
type pullItem struct {
	hash  cas.Hash
	entry object.Entry
}

// listMissing returns the records that the store lacks: records with file data, and tree pages in the order of the
// walk.
func (s *Snapshot) listMissing(ctx context.Context, p PullOptions) (data, pages []pullItem, err error) {
	index, err := s.LoadIndex(ctx)
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

		// The walk also continues below a record that the store has: see Pull.
		has, err := p.Has(h)
		if err != nil {
			failed = errors.Join(failed, err)
		}
		if has || err != nil {
			return true
		}

		e, ok := index.Find(h)
		if !ok {
			failed = fmt.Errorf("object %s: %w", h, ErrIncomplete)
			return false
		}

		if e.Kind == cas.KindTree {
			pages = append(pages, pullItem{h, e})
		} else {
			data = append(data, pullItem{h, e})
		}

		return true
	})
	if err = errors.Join(failed, err); err != nil {
		return nil, nil, fmt.Errorf("walking over the snapshot: %w", err)
	}

	return data, pages, nil
}

// pullData copies records with file data into the store, in the order of their places on the remote, and several
// ranges at once.
func (s *Snapshot) pullData(ctx context.Context, data []pullItem, p PullOptions, progress *meter) error {
	slices.SortStableFunc(data, func(a, b pullItem) int { return object.ByPlace(a.entry, b.entry) })
	entries := make([]object.Entry, len(data))
	for i, w := range data {
		entries[i] = w.entry
	}

	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxTransfers)

	for _, joined := range joinRanges(entries, cache.BlockSize) {
		n := 0
		for n < len(data) && data[n].entry.Object == joined.object && data[n].entry.End() <= joined.end {
			n++
		}

		part := data[:n]
		data = data[n:]
		g.Go(func() error {
			// One request reads the whole range into the cache.
			if _, err := s.read(ctx, int(joined.object), false, joined.off, joined.end-joined.off, 0); err != nil {
				return err
			}
			return s.putItems(ctx, part, p, progress)
		})
	}

	return g.Wait()
}

// putItems copies records into the store.
func (s *Snapshot) putItems(ctx context.Context, all []pullItem, p PullOptions, progress *meter) error {
	for _, w := range all {
		b, err := s.Get(ctx, w.hash, nil)
		if err != nil {
			return err
		}
		if _, err := p.Put(w.entry.Kind, b); err != nil {
			return err
		}

		progress.add(int64(w.entry.StoredSize))
	}
	return nil
}
