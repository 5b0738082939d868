package live

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/vfstest"
)

func testForest(t testing.TB, fs vfs.FS) *Forest { return testForestIn(t, fs, "") }

func testForestIn(t testing.TB, fs vfs.FS, dir string) *Forest {
	t.Helper()
	log, err := journal.Open(dir+"/journal", journal.Options{FS: fs, SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	return newForest(t, log)
}

func newForest(t testing.TB, log *journal.Journal) *Forest {
	t.Helper()
	f := New(Options{
		Source: tree.NewSource(nil, log, 1<<20), Log: log, Logger: slog.New(slog.DiscardHandler),
		ReadView: func(*tree.Source, uint32) (*tree.State, error) { return nil, errs.Stale },
		Admit:    func(uint32, int64) error { return nil },
		Memory:   unlimitedMemory{},
	})
	if err := f.Update(true, func(tx *Tx) error {
		tx.AddView(MainView, tree.NewRoot(tx.Epoch(), unix.S_IFDIR|0o755, 0, 0, 1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

// unlimitedMemory is a Memory without limits.
type unlimitedMemory struct{}

func (unlimitedMemory) Take(uint32, int64, int64, bool) bool             { return true }
func (unlimitedMemory) Await(context.Context, uint32, int64, bool) error { return nil }
func (unlimitedMemory) SealIfNearlyFull() error                          { return nil }
func (unlimitedMemory) SealEdit(uint32, *tree.State, int64) (sealed bool, err error) {
	return false, nil
}

func create(f *Forest, name string) error {
	_, err := f.Create(Node(MainView, RootIno), name, NewNode{Mode: unix.S_IFREG | 0o644})
	return err
}

// TestHalfDoneChange: a fault under the lock leaves no lock held, nothing is changed
// on top of a state that may be half changed, reading goes on, and recovery makes
// the change.
func TestHalfDoneChange(t *testing.T) {
	root, failed := Node(MainView, RootIno), errors.New("half-way")
	for how, change := range map[string]func(f *Forest) error{
		"panic": func(f *Forest) error {
			f.Takeover.SetMount(Mount{IsHeld: func(NodeID) bool { panic("half-way") }})
			_, err := f.Unlink(root, "victim")
			return err
		},
		"panic in a capture": func(f *Forest) error {
			return f.Update(true, func(tx *Tx) error {
				if err := tx.Append(FirstForeign, []byte("x"), 0); err != nil {
					return err
				}
				panic("half-way")
			})
		},
		"error in a capture": func(f *Forest) error {
			return f.Update(true, func(tx *Tx) error {
				return errors.Join(tx.Append(FirstForeign, []byte("x"), 0), failed)
			})
		},
	} {
		t.Run(how, func(t *testing.T) {
			fs := vfstest.NewMem()
			f := testForest(t, fs)
			if err := errors.Join(create(f, "before"), create(f, "victim")); err != nil {
				t.Fatal(err)
			}
			var p *guard.Panic
			if err := guard.Do(func() error { return change(f) }); !errors.Is(err, failed) && !errors.As(err, &p) {
				t.Fatal(err)
			}
			if err := create(f, "after"); !errors.Is(err, ErrFailed) {
				t.Errorf("a change after that: %v", err)
			}
			if _, err := f.Lookup(root, "before"); err != nil {
				t.Errorf("a lookup after that: %v", err)
			}
			if err := f.trees.log.Close(); err != nil {
				t.Fatal(err)
			}
			f = testForest(t, fs)
			foreign := 0
			lost, err := f.Recovery.Replay(0, false, func(*Tx, journal.Type, []byte) error {
				foreign++
				return nil
			})
			if err != nil || lost.Count > 0 {
				t.Fatal(lost, err)
			}
			if _, err := f.Lookup(root, "victim"); errors.Is(err, errs.NotExist) == (foreign == 1) {
				t.Errorf("recovery did not make the change: %v, %d records", err, foreign)
			}
			if err := create(f, "after"); err != nil {
				t.Errorf("after recovery: %v", err)
			}
		})
	}
}

// TestPanicWhileReading: a reader that panics leaves no lock either.
func TestPanicWhileReading(t *testing.T) {
	f := testForest(t, vfstest.NewMem())
	f.trees.readView = func(*tree.Source, uint32) (*tree.State, error) { panic("view") }
	elsewhere := Node(MainView+7, RootIno)
	for name, read := range map[string]func(){
		"read": func() { _, _ = f.ReadAt(elsewhere, make([]byte, 1), 0) },
		"stat": func() { _, _ = f.GetAttr(elsewhere) },
		"seek": func() { _, _ = f.Seek(elsewhere, 0, unix.SEEK_DATA) },
		"copy": func() { _, _ = f.CopyRange(elsewhere, 0, Node(MainView, RootIno), 0, 1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			read()
		}()
		if !f.trees.mu.TryLock() {
			t.Fatalf("%s: the lock is held", name)
		}
		f.trees.mu.Unlock()
	}
}
