package tree

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCacheOfPages: what is decoded of a directory whose inodes are looked up in any order stays
// in memory if it takes most of what the caches may take.
func TestCacheOfPages(t *testing.T) {
	const n = 10_000
	f := newTestFS()
	dir := f.create(RootIno, "big", unix.S_IFDIR|0o755)
	for i := range n {
		f.create(dir, testName(i), unix.S_IFREG|0o644)
	}
	s := f.freeze()
	f.seal(t, s)
	list := func(src *Source) {
		order := rand.New(rand.NewPCG(1, 1)).Perm(n)
		for _, i := range order {
			must(s.Lookup(src, must(s.Get(src, dir)), testName(i)))
		}
	}
	list(f.src)
	src := NewSource(f.store, f.log, f.src.pages.Weight()*5/4)
	list(src)
	before := f.store.gets
	list(src)
	if n := f.store.gets - before; n > 0 {
		t.Errorf("%d pages were read again", n)
	}
}
