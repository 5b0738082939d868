package cas

import (
	"context"
	"os"
)

// sample is short, or all where the tests are to look at everything.
func sample[N int | int64 | uint64](short, all N) N {
	if os.Getenv("AMBERFS_TEST_LONG") != "" {
		return all
	}
	return short
}

// GC is a whole collection; begin, which may be nil, is called when it records.
func (s *Store) GC(ctx context.Context, lossy bool, begin func(), mark func(keep func(Hash) bool) error,
	progress func(done, total int64)) (GCResult, error) {
	r, err := s.BeginCollection(ctx, func(context.Context) error {
		if begin != nil {
			begin()
		}
		return nil
	})
	if err != nil {
		return GCResult{}, err
	}
	defer r.Close()
	return r.Collect(ctx, lossy, func(k *Marker) error { return mark(k.Mark) }, progress)
}
