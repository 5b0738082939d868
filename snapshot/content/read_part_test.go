package content

import (
	"bytes"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// storeOfParts reads parts of the objects of a cas.Store, and counts.
type storeOfParts struct {
	*cas.Store
	read, parts int64 // bytes read by Get and Part
	damaged     bool  // Part returns wrong bytes
}

func (s *storeOfParts) Get(h cas.Hash, dst []byte) ([]byte, error) {
	b, err := s.Store.Get(h, dst)
	s.read += int64(len(b))
	return b, err
}

func (s *storeOfParts) ReadPlain(from cas.PlainPlace, p []byte, at int64) bool {
	ok := s.Store.ReadPlain(from, p, at)
	s.parts += int64(len(p))
	if s.damaged {
		p[len(p)/2] ^= 1
	}
	return ok
}

// TestPart: of a chunk that was checked before, a read needs only the blocks in which its bytes are, and
// finds out if they have changed since.
func TestPart(t *testing.T) {
	packs, err := cas.Open(t.TempDir(), cas.Options{})
	must.OK(t, err)
	defer packs.Close()
	b, store := newBench(), &storeOfParts{Store: packs}
	src := NewSource(store, b.log, 64<<10) // has no room for two chunks
	b.z = &Sealer{Src: src, Objects: store}
	want := b.noise(1<<20 + 100)
	c := b.file(t, want)
	read := func(off, n int64) {
		t.Helper()
		got := make([]byte, n)
		if _, err := c.ReadAt(src, got, off); err != nil || !bytes.Equal(got, want[off:off+n]) {
			t.Fatalf("%d bytes at %d differ: %v", n, off, err)
		}
	}

	size := int64(len(want))
	for off := int64(0); off < size; off += checkedBlockSize {
		read(off, min(checkedBlockSize, size-off))
	}

	store.read, store.parts = 0, 0
	read(500_000, 100)
	read(20_000, checkedBlockSize)
	read(size-100, 100)
	if store.read > 0 || store.parts == 0 || store.parts > 8*checkedBlockSize {
		t.Errorf("three small reads needed whole chunks of %d bytes and parts of %d", store.read, store.parts)
	}

	store.damaged = true
	read(500_000, 100)
	if store.read == 0 {
		t.Error("a damaged part was not noticed")
	}

	whole := make([]byte, size)
	_, err = c.ReadAt(src, whole, 0)
	must.OK(t, err)
	if !bytes.Equal(whole, want) {
		t.Error("the whole file differs")
	}
}
