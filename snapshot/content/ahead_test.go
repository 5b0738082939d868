package content

import (
	"bytes"
	"context"
	"testing"
)

// TestSourceAhead: a file that was expanded ahead is read without the store, once, and no
// more chunks are kept than may be.
func TestSourceAhead(t *testing.T) {
	b := newBench()
	const files = 3 * maxChunks
	texts, contents := make([][]byte, files), make([]*Content, files)
	for i := range files {
		texts[i] = b.noise(1000 + int64(i))
		m, err := FromReader(context.Background(), b.z, bytes.NewReader(texts[i]))
		if err != nil {
			t.Fatal(err)
		}
		contents[i] = Of(m)
	}
	src := NewSource(b.store, b.log, 8<<20)
	for _, c := range contents {
		src.Ahead(c)
	}
	if n := len(src.ahead.chunks); n != maxChunks {
		t.Errorf("%d chunks are kept, not %d", n, maxChunks)
	}
	for round := range 2 {
		for i := files - maxChunks; i < files; i++ {
			before, got := b.store.read, make([]byte, 4096)
			n, err := contents[i].ReadAt(src, got, 0)
			if err != nil || !bytes.Equal(got[:n], texts[i]) {
				t.Errorf("file %d: %d bytes, %v", i, n, err)
			}
			if loaded := b.store.read > before; loaded != (round == 1) {
				t.Errorf("file %d in round %d: loaded: %v", i, round, loaded)
			}
		}
	}
	if n := len(src.ahead.chunks); n != 0 {
		t.Errorf("%d chunks are kept that were read", n)
	}
	large, err := FromReader(context.Background(), b.z, bytes.NewReader(b.noise(aheadSize+1)))
	if err != nil {
		t.Fatal(err)
	}
	if src.Ahead(Of(large)); len(src.ahead.chunks) != 0 {
		t.Error("a large file was expanded")
	}
	src.Ahead(New(1))
}
