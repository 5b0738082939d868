package cas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
)

// openTest opens a store on the real disk and closes it with the test.
func openTest(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	must.OK(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, errs.Closed) {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func closeTest(t testing.TB, s *Store) {
	t.Helper()
	must.OK(t, s.Close())
}

// memDir returns a directory that goes with the test, in memory if the machine
// has such a filesystem: tests open hundreds of indexes, and Badger syncs a lot.
func memDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "amberfs-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// memOptions keeps the packs on the disk fsys and the index in a directory of
// its own.
func memOptions(t testing.TB, fsys vfs.FS) Options {
	t.Helper()
	return Options{FS: fsys, PackSize: 256 << 10, indexDir: filepath.Join(memDir(t), "index")}
}

// blob returns the same n bytes for the same seed; compressible for odd seeds.
func blob(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
		if seed%2 == 1 {
			b[i] = "abcd"[b[i]&3]
		}
	}
	return b
}

func put(t testing.TB, s *Store, b []byte) Hash {
	t.Helper()
	h, err := s.Put(KindData, b)
	must.OK(t, err)
	return h
}

func wantObject(t testing.TB, s *Store, b []byte) {
	t.Helper()
	got, err := s.Get(Sum(b), nil)
	must.OK(t, err)
	if !bytes.Equal(got, b) {
		t.Fatalf("got %d other bytes than the %d put", len(got), len(b))
	}
}

func wantMissing(t testing.TB, s *Store, h Hash) {
	t.Helper()
	if _, err := s.Get(h, nil); !errors.Is(err, ErrNotFound) {
		t.Fatalf("get %s: %v, want ErrNotFound", h, err)
	}
}

func wantMeta(t testing.TB, s *Store, key, value string) {
	t.Helper()
	got, err := s.GetMeta(key)
	if value == "" {
		if !errors.Is(err, ErrNotFound) {
			t.Fatalf("meta %q: %q, %v, want ErrNotFound", key, got, err)
		}
		return
	}
	if err != nil || string(got) != value {
		t.Fatalf("meta %q: %q, %v, want %q", key, got, err, value)
	}
}

func commit(t testing.TB, s *Store, ops ...MetaOp) {
	t.Helper()
	must.OK(t, s.Commit(ops...))
}

func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{})
	var blobs [][]byte
	for i, n := range []int{0, 1, 63, 64, 65, 127, 128, 129, 4095, 4096, 65536, 300000, 1 << 20} {
		blobs = append(blobs, blob(uint64(2*i), n), blob(uint64(2*i+1), n))
	}
	for _, b := range blobs {
		h := put(t, s, b)
		if h != Sum(b) {
			t.Fatalf("hash %s, want %s", h, Sum(b))
		}
		wantObject(t, s, b)
	}
	for i := range 50 {
		commit(t, s, MetaOp{Key: fmt.Sprintf("ref/%02d", i), Value: fmt.Appendf(nil, "v%d", i)})
	}
	commit(t, s, MetaOp{Key: "ref/07", Delete: true}, MetaOp{Key: "ref/08", Value: []byte("new")})
	check := func(s *Store) {
		t.Helper()
		for _, b := range blobs {
			wantObject(t, s, b)
		}
		wantMeta(t, s, "ref/07", "")
		wantMeta(t, s, "ref/08", "new")
		n := 0
		last := ""
		err := s.ScanMeta("ref/", func(k string, v []byte) error {
			if k <= last {
				t.Errorf("key %q after %q", k, last)
			}
			last = k
			n++
			return nil
		})
		if err != nil || n != 49 {
			t.Fatalf("scan: %d keys, %v, want 49", n, err)
		}
	}
	check(s)
	closeTest(t, s)
	s = openTest(t, dir, Options{})
	check(s)
	closeTest(t, s)
	ro := openTest(t, dir, Options{ReadOnly: true})
	check(ro)
	if _, err := ro.Put(KindData, []byte("x")); !errors.Is(err, errs.ReadOnly) {
		t.Fatalf("put into a read-only store: %v", err)
	}
}

func TestGCRemovesWhatIsNotMarked(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir, Options{PackSize: 256 << 10})
	var keep []Hash
	for i := range 400 {
		h := put(t, s, blob(uint64(i), 2000+i))
		if i%7 == 0 {
			keep = append(keep, h)
		}
	}
	res, err := s.GC(context.Background(), false, nil, func(k func(Hash) bool) error {
		for _, h := range keep {
			if !k(h) {
				t.Errorf("%s was kept before", h)
			}
			if k(h) {
				t.Errorf("%s was not kept before", h)
			}
		}
		return nil
	}, nil)
	must.OK(t, err)
	if res.RemovedObjects != int64(400-len(keep)) || res.FreedBytes <= 0 {
		t.Errorf("result %+v", res)
	}
	check := func() {
		t.Helper()
		for i := range 400 {
			b := blob(uint64(i), 2000+i)
			if i%7 == 0 {
				wantObject(t, s, b)
			} else {
				wantMissing(t, s, Sum(b))
			}
		}
		if st := s.Stats(); st.Objects != int64(len(keep)) {
			t.Errorf("stats say %d objects, want %d", st.Objects, len(keep))
		}
	}
	check()
	closeTest(t, s)
	s = openTest(t, dir, Options{PackSize: 256 << 10})
	check()
}
