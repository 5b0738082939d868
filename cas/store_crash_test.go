package cas

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// verifyClean fails the test if Verify finds anything.
func verifyClean(t testing.TB, s *Store) {
	t.Helper()
	_, err := s.Verify(context.Background(), nil, func(d Damage) {
		t.Errorf("damage: %s", d.Error())
	})
	must.OK(t, err)
}

// copyDir copies the files of a directory, as a power cut would leave an index
// whose every write is synced.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(memDir(t), "copy")
	must.OK(t, os.MkdirAll(to, 0o700))
	ents, err := os.ReadDir(from)
	must.OK(t, err)
	for _, e := range ents {
		in, err := vfs.OS.OpenFile(filepath.Join(from, e.Name()), os.O_RDONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must.OK(t, err)
		size, err := in.Size()
		must.OK(t, err)
		out, err := vfs.Create(vfs.OS, filepath.Join(to, e.Name()))
		must.OK(t, err)
		must.OK(t, out.Truncate(size))
		buf := make([]byte, 1<<20)
		for off := int64(0); off < size; off += int64(len(buf)) {
			n, err := readUpTo(in, buf, off)
			must.OK(t, err)
			for _, c := range buf[:n] {
				if c != 0 { // keep it sparse
					_, err = out.WriteAt(buf[:n], off)
					must.OK(t, err)
					break
				}
			}
		}
		in.Close()
		out.Close()
	}
	return to
}

// A history is what a test did to a store, to compare with after a crash.
type history struct {
	committed map[Hash][]byte
	pending   map[Hash][]byte
	metas     map[string]string // committed
	batch     map[string]string // being committed when it crashed, "" deletes
}

// check compares a store after a crash.
func (h *history) check(t *testing.T, s *Store) {
	t.Helper()
	for _, b := range h.committed {
		wantObject(t, s, b)
	}
	for hash, b := range h.pending {
		if got, err := s.Get(hash, nil); err == nil && string(got) != string(b) || err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("an object that was not committed is neither there nor missing: %v", err)
		}
	}
	matches := func(m map[string]string) bool {
		n := 0
		ok := true
		must.OK(t, s.ScanMeta("", func(k string, v []byte) error {
			n++
			ok = ok && m[k] == string(v)
			return nil
		}))
		return ok && n == len(m)
	}
	after := map[string]string{}
	for k, v := range h.metas {
		after[k] = v
	}
	for k, v := range h.batch {
		if v == "" {
			delete(after, k)
		} else {
			after[k] = v
		}
	}
	if !matches(h.metas) && !matches(after) {
		t.Errorf("metadata is neither that before the last commit nor that after")
	}
}

// run does random things to the store until one fails or the steps are done.
func (h *history) run(s *Store, rnd *rand.Rand, steps int) error {
	for range steps {
		switch n := rnd.IntN(10); {
		case n < 8:
			b := blob(rnd.Uint64N(1000), 1+rnd.IntN(6000))
			hash, err := s.Put(KindData, b)
			if err != nil {
				return err
			}
			if _, ok := h.committed[hash]; !ok {
				h.pending[hash] = b
			}
		case n < 9:
			h.batch = map[string]string{}
			var ops []MetaOp
			for range rnd.IntN(4) {
				k := fmt.Sprintf("k%d", rnd.IntN(10))
				if _, twice := h.batch[k]; twice {
					continue
				}
				op := MetaOp{Key: k, Delete: rnd.IntN(3) == 0}
				if !op.Delete {
					op.Value = blob(rnd.Uint64(), 1+rnd.IntN(300))
				}
				h.batch[k] = string(op.Value)
				ops = append(ops, op)
			}
			if err := s.Commit(ops...); err != nil {
				return err
			}
			for k, v := range h.batch {
				if v == "" {
					delete(h.metas, k)
				} else {
					h.metas[k] = v
				}
			}
			h.batch = nil
			for hash, b := range h.pending {
				h.committed[hash] = b
			}
			h.pending = map[Hash][]byte{}
		default:
			if rnd.IntN(3) == 0 {
				if err := s.index.flush(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func newHistory() *history {
	return &history{committed: map[Hash][]byte{}, pending: map[Hash][]byte{}, metas: map[string]string{}}
}

func TestPowerCut(t *testing.T) {
	for seed := range sample[uint64](4, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 7))
			fsys, dir := vfstest.NewMem(), t.TempDir()
			o := memOptions(t, fsys)
			h := newHistory()
			s := openTest(t, dir, o)
			must.OK(t, h.run(s, rnd, 60+rnd.IntN(300)))
			for _, keep := range []float64{0, 0.5, 1} {
				after := Options{FS: fsys.CrashClone(keep, rnd), PackSize: o.PackSize}
				after.indexDir = filepath.Join(memDir(t), "index") // lost
				if keep == 0.5 {
					after.indexDir = copyDir(t, o.indexDir)
				}
				c := openTest(t, dir, after)
				h.check(t, c)
				verifyClean(t, c)
				// It works on, and a second cut right after recovery harms nothing.
				b := blob(seed, 70_000)
				put(t, c, b)
				commit(t, c, MetaOp{Key: "z", Value: []byte("z")})
				closeTest(t, c)
				again := Options{FS: after.FS.(*vfstest.Mem).CrashClone(0.3, rnd), PackSize: o.PackSize, indexDir: after.indexDir}
				d := openTest(t, dir, again)
				for _, b := range h.committed {
					wantObject(t, d, b)
				}
				wantObject(t, d, b)
				wantMeta(t, d, "z", "z")
				verifyClean(t, d)
				closeTest(t, d)
			}
		})
	}
}

// TestEveryDiskOperationMayFail runs the same steps with the i-th operation of
// the pack disk failing, for i = 0, 1, 2… Whatever was committed before the
// failure is there, during the rest of that life of the store and in the next.
func TestEveryDiskOperationMayFail(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for i := int64(0); ; i += 1 + i/sample[int64](3, 12) {
			fsys, dir := vfstest.NewMem(), t.TempDir()
			faulty := vfstest.FailAt(fsys, i, errno)
			o := memOptions(t, faulty)
			h := newHistory()
			s, err := Open(dir, o)
			if err == nil {
				rnd := rand.New(rand.NewPCG(3, 3))
				if err = h.run(s, rnd, 150); err != nil {
					for _, b := range h.committed {
						wantObject(t, s, b)
					}
				}
				if cerr := s.Close(); err == nil {
					err = cerr
				}
			}
			if err != nil && !errors.Is(err, errno) {
				t.Fatalf("operation %d: %v, which hides %v", i, err, errno)
			}
			o.FS = fsys
			s = openTest(t, dir, o)
			h.check(t, s)
			verifyClean(t, s)
			closeTest(t, s)
			if !faulty.Failed() {
				break
			}
		}
	}
}

func TestFailedSyncStopsWriting(t *testing.T) {
	fsys, dir := vfstest.NewMem(), t.TempDir()
	bad := &badSync{FS: fsys}
	o := memOptions(t, bad)
	s := openTest(t, dir, o)
	a, b := blob(1, 5000), blob(2, 5000)
	put(t, s, a)
	commit(t, s, MetaOp{Key: "a", Value: []byte("1")})
	put(t, s, b)
	bad.on = true
	if err := s.Commit(MetaOp{Key: "a", Value: []byte("2")}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("commit with a failing disk: %v", err)
	}
	bad.on = false // the kernel reports it once only
	if err := s.Commit(MetaOp{Key: "a", Value: []byte("3")}); !errors.Is(err, syscall.EIO) {
		t.Fatalf("commit after a failed sync: %v", err)
	}
	if _, err := s.Put(KindData, blob(3, 10)); !errors.Is(err, syscall.EIO) {
		t.Fatalf("put after a failed sync: %v", err)
	}
	wantObject(t, s, a)
	wantObject(t, s, b)
	wantMeta(t, s, "a", "1")
	closeTest(t, s)
	// The kernel now takes b for written. It has to be written again.
	fsys.LoseUnsynced()
	s = openTest(t, dir, o)
	wantMeta(t, s, "a", "1")
	n := len(records(t, s))
	if put(t, s, b); len(records(t, s)) != n {
		t.Fatal("an object that can be read was stored again")
	}
	commit(t, s)
	closeTest(t, s)
	o.FS = fsys.CrashClone(0, rand.New(rand.NewPCG(0, 0)))
	s = openTest(t, dir, o)
	wantObject(t, s, a)
	wantObject(t, s, b)
	wantMeta(t, s, "a", "1")
}

// TestFailedFlushForgetsNothing: what comes while a flush is under way must not
// get lost when the flush fails.
func TestFailedFlushForgetsNothing(t *testing.T) {
	s := openTest(t, t.TempDir(), memOptions(t, vfstest.NewMem()))
	a, b := blob(1, 1000), blob(2, 1000)
	put(t, s, a)
	commit(t, s, MetaOp{Key: "a", Value: []byte("1")}, MetaOp{Key: "b", Value: []byte("1")})
	over, _, dirty := s.index.beginFlush()
	put(t, s, b)
	commit(t, s, MetaOp{Key: "a", Value: []byte("2")})
	s.index.endFlush(over, dirty)
	for range 2 {
		wantObject(t, s, a)
		wantObject(t, s, b)
		wantMeta(t, s, "a", "2")
		wantMeta(t, s, "b", "1")
		must.OK(t, s.index.flush())
	}
	verifyClean(t, s)
}

// badSync is a disk whose syncs fail while on.
type badSync struct {
	vfs.FS
	on bool
}

type badSyncFile struct {
	vfs.File
	fs *badSync
}

func (b *badSync) OpenFile(name string, flag int, perm os.FileMode) (vfs.File, error) {
	f, err := b.FS.OpenFile(name, flag, perm)
	return &badSyncFile{f, b}, err
}

func (f *badSyncFile) Sync() error {
	if f.fs.on {
		return syscall.EIO
	}
	return f.File.Sync()
}
