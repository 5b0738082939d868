package content

import (
	"bytes"
	"context"
	"math"
	"sync"
	"testing"
)

// TestReadWhileSealing: frozen contents read the same all the time while they
// are sealed and rebased and the journal that they were in is dropped.
func TestReadWhileSealing(t *testing.T) {
	b := newBench()
	const files = 4
	var mu sync.Mutex // a file system's lock
	var current [files]*Content
	var want [files][]byte
	for i := range current {
		want[i] = b.noise(200 << 10)
		current[i] = New(1)
		b.write(t, current[i], 0, want[i])
	}
	var wg sync.WaitGroup
	versions := append([]*Content(nil), current[:]...)
	for epoch := uint64(2); epoch < 25; epoch++ {
		mu.Lock()
		for i, c := range current {
			c = c.VersionFor(epoch)
			p := b.noise(1 + b.rnd.Int64N(5000))
			off := b.rnd.Int64N(int64(len(want[i])) - int64(len(p)))
			frozen, holds := current[i], want[i]
			want[i] = bytes.Clone(want[i])
			b.write(t, c, off, p)
			copy(want[i][off:], p)
			current[i] = c
			versions = append(versions, c)
			wg.Go(func() {
				for range 8 {
					got := make([]byte, len(holds))
					if n, err := frozen.ReadAt(b.src, got, 0); err != nil || !bytes.Equal(got[:n], holds) {
						t.Errorf("epoch %d: file %d reads wrong: %v", epoch, i, err)
						return
					}
				}
			})
			for range 2 { // forks may seal the same version twice
				wg.Go(func() {
					if _, err := b.z.Seal(context.Background(), frozen); err != nil {
						t.Error(err)
					}
				})
			}
		}
		mu.Unlock()
		wg.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			low := int64(math.MaxInt64)
			for _, c := range versions {
				c.Rebase()
				low = min(low, c.MinJournalPos())
			}
			b.log.dropBefore(low)
		})
		if epoch%4 == 0 {
			wg.Wait()
		}
	}
	wg.Wait()
	for i, c := range current {
		b.wantBytes(t, c, want[i])
	}
}
