package content

import (
	"bytes"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// partStore is a byteStore that can read parts of objects.
type partStore struct {
	*byteStore
	parts   int64 // bytes read by Part
	damaged bool  // Part returns wrong bytes
}

func (s *partStore) Part(h cas.Hash, p []byte, at int64) bool {
	b := s.objects[h]
	if at+int64(len(p)) > int64(len(b)) {
		return false
	}
	s.parts += int64(copy(p, b[at:]))
	if s.damaged {
		p[len(p)/2] ^= 1
	}
	return true
}

// TestPart: of a chunk that was checked before, a read needs only the blocks in which its bytes are, and
// finds out if they have changed since.
func TestPart(t *testing.T) {
	b := newBench()
	store := &partStore{byteStore: b.store}
	want := b.noise(1<<20 + 100)
	c := b.file(t, want)
	src := NewSource(store, b.log, 64<<10) // has no room for two chunks
	read := func(off, n int64) {
		t.Helper()
		got := make([]byte, n)
		if _, err := c.ReadAt(src, got, off); err != nil || !bytes.Equal(got, want[off:off+n]) {
			t.Fatalf("%d bytes at %d differ: %v", n, off, err)
		}
	}

	size := int64(len(want))
	for off := int64(0); off < size; off += checkedBlock {
		read(off, min(checkedBlock, size-off))
	}

	store.read, store.parts = 0, 0
	read(500_000, 100)
	read(20_000, checkedBlock)
	read(size-100, 100)
	if store.read > 0 || store.parts == 0 || store.parts > 8*checkedBlock {
		t.Errorf("three small reads needed whole chunks of %d bytes and parts of %d", store.read, store.parts)
	}

	store.damaged = true
	read(500_000, 100)
	if store.read == 0 {
		t.Error("a damaged part was not noticed")
	}

	whole := make([]byte, size)
	_, err := c.ReadAt(src, whole, 0)
	must.OK(t, err)
	if !bytes.Equal(whole, want) {
		t.Error("the whole file differs")
	}
}
