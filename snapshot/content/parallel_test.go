package content

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/tests/must"
)

// TestReadsSideBySide reads a file in large pieces, several at a time, as the kernel
// does: the bytes are right, and no chunk is loaded twice, although the pieces end in
// the middle of chunks.
func TestReadsSideBySide(t *testing.T) {
	const size, piece = 8 << 20, 512 << 10
	data := make([]byte, size)
	rand.NewChaCha8([32]byte{7}).Read(data)
	store := newByteStore()
	src := NewSource(store, &byteLog{}, 64<<20)
	b, err := FromReader(context.Background(), &Sealer{Src: src, Objects: store}, bytes.NewReader(data))
	must.OK(t, err)
	c := Of(b)
	got := make([]byte, size)
	var readers sync.WaitGroup
	for off := int64(0); off < size; off += piece {
		readers.Go(func() {
			if n, err := c.ReadAt(src, got[off:off+piece], off); n != piece || err != nil {
				t.Errorf("at %d: %d, %v", off, n, err)
			}
		})
	}
	readers.Wait()
	if !bytes.Equal(got, data) {
		t.Error("the bytes are others")
	}
	// The lists of chunks come on top of the file.
	if store.read > size+size/8 {
		t.Errorf("%d bytes were loaded for a file of %d", store.read, size)
	}

	var second cas.Hash
	i := 0
	must.OK(t, b.eachHash(src, func(h cas.Hash, isList bool) (bool, error) {
		if !isList {
			if i++; i == 2 {
				second = h
			}
		}
		return true, nil
	}))
	delete(store.objects, second)
	fresh := NewSource(store, &byteLog{}, 64<<20)
	if _, err := c.ReadAt(fresh, got, 0); !errors.Is(err, cas.ErrNotFound) {
		t.Errorf("without its second chunk: %v", err)
	}
}
