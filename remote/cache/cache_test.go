package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/amberfs/amberfs/remote/backend"
	"github.com/amberfs/amberfs/tests/must"
)

// source is an object of random bytes. It counts the requests and the bytes that were read.
type source struct {
	backend.Object
	data     []byte
	requests atomic.Int64
	bytes    atomic.Int64
}

func newSource(n int) *source {
	s := &source{Object: backend.Object{Name: strings.Repeat("ab", 32), Size: int64(n)}, data: make([]byte, n)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(s.data)
	return s
}

func (s *source) fetch(_ context.Context, off, n int64) ([]byte, error) {
	s.requests.Add(1)
	s.bytes.Add(n)
	return s.data[off:min(off+n, s.Size)], nil
}

func read(t *testing.T, c *Cache, s *source, off, n, ahead int64) {
	t.Helper()
	got, err := c.ReadAt(t.Context(), s.Object, off, n, ahead, s.fetch)
	if want := s.data[min(off, s.Size):min(off+n, s.Size)]; err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes at %d: got %d, %v", n, off, len(got), err)
	}
}

func TestReadAt(t *testing.T) {
	s := newSource(5*BlockSize + 100)
	c := New(t.TempDir(), 1<<30)
	for range 200 {
		read(t, c, s, rand.Int64N(s.Size+10), rand.Int64N(2*BlockSize), 0)
	}
	if n := s.bytes.Load(); n > s.Size {
		t.Errorf("%d bytes were fetched of an object of %d", n, s.Size)
	}
	before := s.requests.Load()
	read(t, New(c.dir, 1<<30), s, 0, s.Size, 0)
	if s.requests.Load() != before {
		t.Error("another process fetched what is there")
	}
}

func TestAhead(t *testing.T) {
	s := newSource(6 * BlockSize)
	c := New(t.TempDir(), 1<<30)
	read(t, c, s, 0, 10, 3*BlockSize)
	if s.requests.Load() != 1 || !c.Has(s.Object, 0, 3*BlockSize) || c.Has(s.Object, 0, 5*BlockSize) {
		t.Errorf("%d requests, %d bytes", s.requests.Load(), s.bytes.Load())
	}
}

// TestShared: if many readers need a block, it is fetched once.
func TestShared(t *testing.T) {
	s := newSource(BlockSize)
	c := New(t.TempDir(), 1<<30)
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() { read(t, c, s, int64(i), 100, 0) })
	}
	wg.Wait()
	if s.requests.Load() != 1 {
		t.Errorf("%d requests for one block", s.requests.Load())
	}
}

func TestTornBlock(t *testing.T) {
	s := newSource(BlockSize + 10)
	c := New(t.TempDir(), 1<<30)
	read(t, c, s, 0, s.Size, 0)
	must.OK(t, os.Truncate(filepath.Join(c.dir, blockFile(s.Object, 0)), 5000))
	read(t, c, s, 0, s.Size, 0)
	// The cache does not notice a block with the right length and wrong bytes, so the reader calls Drop.
	must.OK(t, os.WriteFile(filepath.Join(c.dir, blockFile(s.Object, 1)), make([]byte, 10), 0o600))
	c.Drop(s.Object, BlockSize, 10)
	read(t, c, s, 0, s.Size, 0)
}

func TestEvict(t *testing.T) {
	s := newSource(20 * BlockSize)
	c := New(t.TempDir(), 8*BlockSize)
	old := time.Now().Add(-2 * time.Hour)
	for i := range int64(20) {
		read(t, c, s, i*BlockSize, 10, 0)
		name := filepath.Join(c.dir, blockFile(s.Object, i))
		if err := os.Chtimes(name, old.Add(time.Duration(i)*time.Second), old.Add(time.Duration(i)*time.Second)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if c.Has(s.Object, 0, 10) {
			read(t, c, s, 0, 10, 0) // the block was used, so it stays
		}
	}
	if _, total := c.cleanAndListBlocks(); total > 9*BlockSize {
		t.Errorf("%d MiB in a cache of 8", total>>20)
	}
	if !c.Has(s.Object, 0, 10) || !c.Has(s.Object, 19*BlockSize, 10) || c.Has(s.Object, BlockSize, 10) {
		t.Error("what was used last went, or what was not stayed")
	}
}

// TestErase: no block is left in the directory, and the files of the blocks were overwritten.
func TestErase(t *testing.T) {
	s := newSource(2*BlockSize + 10)
	c := New(t.TempDir(), 1<<30)
	read(t, c, s, 0, s.Size, 0)
	file, err := os.Open(filepath.Join(c.dir, blockFile(s.Object, 1))) // shows whether the file was overwritten
	must.OK(t, err)
	defer file.Close()

	other := filepath.Join(c.dir, s.Name[:2], "notes.txt") // a file of the user
	must.OK(t, os.WriteFile(other, []byte("mine"), 0o600))

	must.OK(t, c.Erase())
	if b, err := os.ReadFile(other); string(b) != "mine" {
		t.Errorf("a file that is no block: %q, %v", b, err)
	}
	if blocks, _ := c.cleanAndListBlocks(); len(blocks) > 0 || c.Has(s.Object, 0, 1) {
		t.Errorf("blocks are left: %v", blocks)
	}
	b, err := io.ReadAll(file)
	must.OK(t, err)
	if len(b) != BlockSize || len(bytes.Trim(b, "\x00")) > 0 {
		t.Error("the disk has the bytes of a block")
	}

	read(t, c, s, 0, s.Size, 0)
}

// TestShortObject: an object that is shorter than its size is an error, and is not cached.
func TestShortObject(t *testing.T) {
	s := newSource(1000)
	c := New(t.TempDir(), 1<<30)
	longer := backend.Object{Name: s.Name, Size: 2000}
	if _, err := c.ReadAt(t.Context(), longer, 0, 2000, 0, s.fetch); err == nil {
		t.Error("no error")
	}
	if c.Has(longer, 0, 2000) {
		t.Error("it is in the cache")
	}
}

// TestRemoved: the directory may be removed between reads. Then the blocks are fetched again.
func TestRemoved(t *testing.T) {
	s := newSource(3 * BlockSize)
	dir := filepath.Join(t.TempDir(), "cache")
	c := New(dir, 1<<30)
	for i := range int64(20) {
		must.OK(t, os.RemoveAll(dir))
		read(t, c, s, i*1000, 2*BlockSize, 0)
	}
	if !c.Has(s.Object, 0, BlockSize) {
		t.Error("it is not made again")
	}
}

// TestNoDirectory: if blocks cannot be stored, the blocks that were fetched last stay in memory for the next reader.
func TestNoDirectory(t *testing.T) {
	s := newSource(2 * BlockSize)
	parent := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(parent, nil, 0o600))
	c := New(filepath.Join(parent, "cache"), 1<<30)
	read(t, c, s, 10, BlockSize, 0)
	if b, err := c.ReadAt(t.Context(), s.Object, 10, BlockSize, 0, nil); err != nil || !bytes.Equal(b, s.data[10:10+BlockSize]) {
		t.Error("what was just fetched is not there")
	}
	c.Drop(s.Object, 0, s.Size)
	if _, err := c.ReadAt(t.Context(), s.Object, 10, BlockSize, 0, nil); err == nil {
		t.Error("what was dropped is there")
	}
}
