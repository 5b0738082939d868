package cache

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// source is an object of random bytes that counts how it is read.
type source struct {
	Object
	data     []byte
	requests atomic.Int64
	bytes    atomic.Int64
}

func newSource(n int) *source {
	s := &source{Object: Object{Name: strings.Repeat("ab", 32), Size: int64(n)}, data: make([]byte, n)}
	_, _ = rand.NewChaCha8([32]byte{1}).Read(s.data)
	return s
}

func (s *source) fetch(_ context.Context, off, n int64) ([]byte, error) {
	s.requests.Add(1)
	s.bytes.Add(n)
	return s.data[off:min(off+n, s.Size)], nil
}

func open(t *testing.T, dir string, size int64) *Cache {
	t.Helper()
	c, err := Open(dir, size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
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
	c := open(t, t.TempDir(), 1<<30)
	for range 200 {
		read(t, c, s, rand.Int64N(s.Size+10), rand.Int64N(2*BlockSize), 0)
	}
	if n := s.bytes.Load(); n > s.Size {
		t.Errorf("%d bytes were fetched of an object of %d", n, s.Size)
	}
	before := s.requests.Load()
	read(t, open(t, c.root.Name(), 1<<30), s, 0, s.Size, 0)
	if s.requests.Load() != before {
		t.Error("another process fetched what is there")
	}
}

func TestAhead(t *testing.T) {
	s := newSource(6 * BlockSize)
	c := open(t, t.TempDir(), 1<<30)
	read(t, c, s, 0, 10, 3*BlockSize)
	if s.requests.Load() != 1 || !c.Has(s.Object, 0, 3*BlockSize) || c.Has(s.Object, 0, 5*BlockSize) {
		t.Errorf("%d requests, %d bytes", s.requests.Load(), s.bytes.Load())
	}
}

// Many readers of two caches of one directory fetch a block once.
func TestShared(t *testing.T) {
	s := newSource(BlockSize)
	dir := t.TempDir()
	caches := []*Cache{open(t, dir, 1<<30), open(t, dir, 1<<30)}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() { read(t, caches[i%2], s, int64(i), 100, 0) })
	}
	wg.Wait()
	if s.requests.Load() != 1 {
		t.Errorf("%d requests for one block", s.requests.Load())
	}
}

func TestTornBlock(t *testing.T) {
	s := newSource(BlockSize + 10)
	c := open(t, t.TempDir(), 1<<30)
	read(t, c, s, 0, s.Size, 0)
	if err := os.Truncate(filepath.Join(c.root.Name(), s.file(0)), 5000); err != nil {
		t.Fatal(err)
	}
	read(t, c, s, 0, s.Size, 0)
	// One of the right length and wrong bytes only its reader notices.
	if err := os.WriteFile(filepath.Join(c.root.Name(), s.file(1)), make([]byte, 10), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Drop(s.Object, BlockSize, 10)
	read(t, c, s, 0, s.Size, 0)
}

func TestEvict(t *testing.T) {
	s := newSource(20 * BlockSize)
	c := open(t, t.TempDir(), 8*BlockSize)
	old := time.Now().Add(-2 * time.Hour)
	for i := range int64(20) {
		read(t, c, s, i*BlockSize, 10, 0)
		name := filepath.Join(c.root.Name(), s.file(i))
		if err := os.Chtimes(name, old.Add(time.Duration(i)*time.Second), old.Add(time.Duration(i)*time.Second)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if c.Has(s.Object, 0, 10) {
			read(t, c, s, 0, 10, 0) // used: it stays
		}
	}
	if _, total := c.blocks(); total > 9*BlockSize {
		t.Errorf("%d MiB in a cache of 8", total>>20)
	}
	if !c.Has(s.Object, 0, 10) || !c.Has(s.Object, 19*BlockSize, 10) || c.Has(s.Object, BlockSize, 10) {
		t.Error("what was used last went, or what was not stayed")
	}
}

// An object that is shorter than it was said to be is an error, and nothing is kept.
func TestShortObject(t *testing.T) {
	s := newSource(1000)
	c := open(t, t.TempDir(), 1<<30)
	longer := Object{s.Name, 2000}
	if _, err := c.ReadAt(t.Context(), longer, 0, 2000, 0, s.fetch); err == nil {
		t.Error("no error")
	}
	if c.Has(longer, 0, 2000) {
		t.Error("it is in the cache")
	}
}
