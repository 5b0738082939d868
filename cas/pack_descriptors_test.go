package cas

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestOpenPacks: however many packs there are, few stay open, and all can be read and written
// by several at once.
func TestOpenPacks(t *testing.T) {
	s := openTest(t, memDir(t), Options{PackSize: 4096})
	const n = 2 * maxOpenPacks
	hashes := make([]Hash, n)
	body := blob(2, 65<<10) // more than half of the smallest pack
	for i := range hashes {
		binary.LittleEndian.PutUint64(body[i*8:], rand.Uint64())
		hashes[i] = put(t, s, body)
		if i%50 == 0 {
			must.OK(t, s.Commit())
		}
	}
	must.OK(t, s.Commit())
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 1000 {
				i := r.IntN(n)
				if _, err := s.Get(hashes[i], nil); err != nil {
					t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
	files := 0
	for _, p := range s.packs.all() {
		if p.file != nil {
			files++
		}
		if p.users > 1 || p.users == 1 && p != s.packs.tail.pack {
			t.Errorf("pack %s has %d users", p.name(), p.users)
		}
	}
	if len(s.packs.all()) < n || files > maxOpenPacks || files != s.packs.open {
		t.Errorf("of %d packs %d are open, by the count %d", len(s.packs.all()), files, s.packs.open)
	}
}
