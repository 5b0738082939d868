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
	c := FromChunkMap(b)
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

// TestStoredBeside: chunks that are stored while the file is read on end up in their order,
// whichever is stored first, and an error of one is that of the file.
func TestStoredBeside(t *testing.T) {
	data := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{8}).Read(data)
	clear(data[1<<20 : 2<<20])
	store := newByteStore()
	z := &Sealer{Src: NewSource(store, &byteLog{}, 0), Objects: store, FindHoles: true}
	want, err := FromReader(t.Context(), z, bytes.NewReader(data))
	must.OK(t, err)
	late := &lateStore{ObjectStore: store, all: make(chan struct{})}
	z.Objects, z.StoreSlots = late, make(chan struct{}, lateChunks)
	got, err := FromReader(t.Context(), z, bytes.NewReader(data))
	must.OK(t, err)
	if !got.equal(want) {
		t.Error("the chunks are others")
	}
	late.err = errors.New("disk on fire")
	if _, err := FromReader(t.Context(), z, bytes.NewReader(data)); !errors.Is(err, late.err) {
		t.Errorf("error %v", err)
	}
}

const lateChunks = 4

// lateStore stores the first chunk when others are waiting behind it. It fails with err.
type lateStore struct {
	ObjectStore
	mu    sync.Mutex
	count int
	all   chan struct{}
	err   error
}

func (s *lateStore) Put(k cas.Kind, b []byte) (cas.Hash, error) {
	s.mu.Lock()
	s.count++
	n := s.count
	s.mu.Unlock()
	if n == lateChunks {
		close(s.all)
	}
	if n == 1 {
		<-s.all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return cas.Hash{}, s.err
	}
	return s.ObjectStore.Put(k, b)
}
