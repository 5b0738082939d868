package snapshot_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// hooked is a disk that asks before every operation whether to do it.
type hooked struct {
	vfs.FS
	ask func() error
}

type hookedFile struct {
	vfs.File
	ask func() error
}

func (h hooked) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if err := h.ask(); err != nil {
		return nil, err
	}
	f, err := h.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return hookedFile{f, h.ask}, nil
}

func (h hooked) do(fn func() error) error {
	if err := h.ask(); err != nil {
		return err
	}
	return fn()
}

func (h hooked) Rename(from, to string) error {
	return h.do(func() error { return h.FS.Rename(from, to) })
}
func (h hooked) Remove(name string) error  { return h.do(func() error { return h.FS.Remove(name) }) }
func (h hooked) SyncDir(name string) error { return h.do(func() error { return h.FS.SyncDir(name) }) }

func (f hookedFile) do(fn func() error) error { return hooked{ask: f.ask}.do(fn) }

func (f hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() error { n, err = f.File.ReadAt(p, off); return err })
	return n, err
}

func (f hookedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.do(func() error { n, err = f.File.WriteAt(p, off); return err })
	return n, err
}

func (f hookedFile) Sync() error            { return f.do(f.File.Sync) }
func (f hookedFile) Truncate(n int64) error { return f.do(func() error { return f.File.Truncate(n) }) }
func (f hookedFile) Allocate(off, n int64) error {
	return f.do(func() error { return f.File.Allocate(off, n) })
}
func (f hookedFile) Punch(off, n int64) error {
	return f.do(func() error { return f.File.Punch(off, n) })
}

// digest stands for everything that a store shows.
func digest(t *testing.T, s *snapshot.Store) string {
	t.Helper()
	all := stores.Portrait(t, s)
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%s\n%s\n", name, all[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:8])
}

// A diary is what a store showed after each step, and how much of that was
// promised to survive.
type diary struct {
	pages []string // digests; the step under way has none yet
	look  func(*snapshot.Store) string
	sure  int // pages[sure] or a later one must be what a power cut leaves
}

func (d *diary) note(sum string) {
	if len(d.pages) == 0 || d.pages[len(d.pages)-1] != sum {
		d.pages = append(d.pages, sum)
	}
}

func openOn(dir string, disk vfs.FS) (*snapshot.Store, error) {
	return snapshot.Open(dir, snapshot.Options{Quiet: true, FS: disk})
}

// randomSteps makes random changes, with history and syncs in between, and writes the
// diary. It ends at the first error that the disk is to blame for.
func randomSteps(t *testing.T, x *stores.Walker, d *diary, n int) error {
	x.Halfway = func() { d.note(d.look(x.S)) }
	for range n {
		ws := stores.Workspaces(x.S)
		sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
		err := x.Step(ws[x.R.IntN(len(ws))])
		if stores.Expected(err) {
			d.note(d.look(x.S))
			switch x.R.IntN(9) {
			case 0:
				err = x.S.Sync()
			case 1, 2:
				err = x.History()
			}
			if stores.Expected(err) {
				d.note(d.look(x.S))
			}
			if k := x.R.IntN(4); stores.Expected(err) && k == 0 {
				if err = x.S.Sync(); err == nil {
					d.sure = len(d.pages) - 1
				}
			}
		}
		if !stores.Expected(err) {
			return err
		}
	}
	return nil
}

// TestPowerCutsOfTheWholeStore: the disk forgets at a random operation of any
// sort, in the middle of a write, a seal, a checkpoint, gc. The state
// afterwards is that after one of the steps: not before the last that was
// synced, nothing in part, nothing out of order.
func TestPowerCutsOfTheWholeStore(t *testing.T) {
	seeds := stores.FromEnv("SEEDS", 5)
	if !long {
		seeds = 1
	}
	for i := 2 * stores.FromEnv("SEED", 0); i < 2*seeds; i++ {
		seed, away := i/2, i%2*3 // 3: most of what a seal wants to read it cannot
		t.Run(fmt.Sprintf("%d,%d", seed, away), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "store")
			rnd := rand.New(rand.NewPCG(uint64(seed), 9))
			mem := vfstest.NewMem()
			var ops atomic.Int64
			var at int64 // the operation at which power fails; 0: never
			var left *vfstest.Mem
			index := filepath.Join(t.TempDir(), "index")
			before := func() {}
			cut := func() error {
				if ops.Add(1) == at {
					before()
					left = mem.CrashClone([]float64{0, 0.3, 0.7, 1}[rnd.IntN(4)], rnd)
					copyDir(t, filepath.Join(dir, "index"), index)
				}
				return nil
			}
			s, err := openOn(dir, hooked{mem, cut})
			must.OK(t, err)
			s.SealThrough(&flaky{Store: s.CAS(), r: rand.New(rand.NewPCG(uint64(seed), 11)), share: away})
			stores.KeepAll(t, s)
			must.OK(t, s.Sync())
			d := &diary{look: func(s *snapshot.Store) string { return digest(t, s) }}
			d.note(digest(t, s))
			x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(uint64(seed), 10)), S: s}
			sure := 0
			at = ops.Load() + 1 + rnd.Int64N(250*int64(1+away))
			before = func() { sure = d.sure }
			for left == nil {
				must.OK(t, randomSteps(t, x, d, 1))
			}
			must.OK(t, s.Close())
			must.OK(t, os.RemoveAll(filepath.Join(dir, "index")))
			if rnd.IntN(2) == 0 { // or else it is lost
				copyDir(t, index, filepath.Join(dir, "index"))
			}
			if s, err = openOn(dir, left); err != nil {
				t.Fatalf("after the power cut: %v", err)
			}
			defer s.Close()
			if i := slices.Index(d.pages[sure:], digest(t, s)); i < 0 {
				if i := slices.Index(d.pages, digest(t, s)); i >= 0 {
					t.Fatalf("the power cut took the store back to step %d of %d; %d was synced", i, len(d.pages), sure)
				}
				t.Fatal("what the power cut left is no state that there ever was")
			}
		})
	}
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	must.CopyStore(t, to, from)
}

// TestEveryOperationOfTheDiskFails: the i-th operation fails, for i = 0, 1, 2…,
// below the whole store. The caller gets an error, no file has other bytes
// than before, and after the next opening all that was answered is there.
func TestEveryOperationOfTheDiskFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		t.Run(errno.Error(), func(t *testing.T) {
			for i := int64(0); ; i += 1 + i/fromEnvStep() {
				if !failOnce(t, i, errno) {
					t.Logf("%d operations", i)
					return
				}
			}
		})
	}
}

// fromEnvStep is how densely operations are chosen: 1/n of those before are
// passed over. EVERY=1 passes over none.
func fromEnvStep() int64 {
	switch {
	case os.Getenv("EVERY") != "":
		return 1 << 40
	case !long:
		return 1
	}
	return 12
}

// failOnce reports whether the operation was reached.
func failOnce(t *testing.T, i int64, errno syscall.Errno) bool {
	dir := filepath.Join(t.TempDir(), "store")
	mem := vfstest.NewMem()
	var ops atomic.Int64
	var calm atomic.Bool // while the test looks
	disk := hooked{mem, func() error {
		if !calm.Load() && ops.Add(1) == i+1 {
			return errno
		}
		return nil
	}}
	look := func(s *snapshot.Store) string {
		calm.Store(true)
		defer calm.Store(false)
		return digest(t, s)
	}
	d := &diary{look: look}
	var broken error
	if s, err := openOn(dir, disk); err == nil {
		d.note(look(s))
		x := &stores.Walker{T: t, R: rand.New(rand.NewPCG(5, 5)), S: s}
		broken = randomSteps(t, x, d, 30)
		if broken != nil {
			// Reading goes on, and nothing has changed by half: it is as before
			// the step or as after it.
			d.note(look(s))
			if journalFailed(s) {
				if _, err := s.Forest().Create(s.Main().Root(), "more", live.NewNode{Mode: 0o100644}); err == nil {
					t.Errorf("operation %d: changes go on after the journal has failed", i)
				}
				if err := s.Sync(); err == nil {
					t.Errorf("operation %d: something was called durable after the journal has failed", i)
				}
			}
		}
		if err := s.Close(); err != nil && broken == nil {
			broken = err
		}
	} else {
		broken = err
	}
	if broken != nil && !errors.Is(broken, errno) && !strings.Contains(broken.Error(), errno.Error()) && !errors.Is(broken, errs.NoSpace) {
		t.Errorf("operation %d: %v, which hides %v", i, broken, errno)
	}
	s, err := openOn(dir, mem)
	if err != nil {
		t.Fatalf("operation %d: opening after it: %v", i, err)
	}
	defer s.Close()
	if got := digest(t, s); len(d.pages) > 0 {
		if k := slices.Index(d.pages[max(0, len(d.pages)-2):], got); k < 0 {
			t.Fatalf("operation %d: after the next opening something that was answered is missing, or there is more", i)
		}
	}
	return ops.Load() > i
}

func journalFailed(s *snapshot.Store) bool {
	return strings.Contains(s.Main().Status().Health, "journal")
}
