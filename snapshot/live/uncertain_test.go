package live

import (
	"errors"
	"log/slog"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cas/vfs"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func testForest(t *testing.T, fs vfs.FS) *Forest {
	t.Helper()
	log, err := journal.Open("/journal", journal.Options{FS: fs, SegmentSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	f := New(Options{
		Source: tree.NewSource(nil, log, 1<<20), Log: log, Logger: slog.New(slog.DiscardHandler),
		ReadView: func(uint32) (*tree.State, error) { return nil, ErrStale },
	})
	if err := f.Update(true, func(tx *Tx) error {
		tx.AddView(MainView, tx.NewRoot(unix.S_IFDIR|0o755, 0, 0, 1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return f
}

func create(f *Forest, name string) error {
	_, err := f.Create(Node(MainView, RootIno), name, Create{Mode: unix.S_IFREG | 0o644})
	return err
}

// TestHalfDoneChange: a panic under the lock leaves no lock held, nothing is
// changed on top of a state that may be half changed, reading goes on, and
// recovery does not make the change that failed.
func TestHalfDoneChange(t *testing.T) {
	for _, how := range []string{"panic", "panic in a capture", "error"} {
		t.Run(how, func(t *testing.T) {
			fs := vfs.NewMem()
			f := testForest(t, fs)
			if err := create(f, "before"); err != nil {
				t.Fatal(err)
			}
			failed := errors.New("half-way")
			func() {
				defer func() {
					if p := recover(); (p == nil) != (how == "error") {
						t.Errorf("recovered %v", p)
					}
				}()
				if how == "panic" {
					v := f.mu.views[MainView]
					state := v.state
					defer func() { v.state = state }()
					f.mu.Lock()
					defer f.mu.Unlock()
					v.state = nil
					_ = f.commit(v, &record{kind: recSetXattr, view: MainView, ino: RootIno, name: "user.x"}, nil)
					return
				}
				err := f.Update(true, func(tx *Tx) error {
					if err := tx.Append(FirstForeign, []byte("x")); err != nil {
						t.Fatal(err)
					}
					if how == "error" {
						return failed
					}
					panic("half-way")
				})
				if !errors.Is(err, failed) {
					t.Error(err)
				}
			}()
			if err := create(f, "after"); !errors.Is(err, ErrUncertain) {
				t.Errorf("a change after that: %v", err)
			}
			if _, err := f.Lookup(Node(MainView, RootIno), "before"); err != nil {
				t.Errorf("a lookup after that: %v", err)
			}
			if err := f.log.Close(); err != nil {
				t.Fatal(err)
			}
			f = testForest(t, fs)
			lost, err := f.Replay(0, false, func(*Tx, journal.Type, []byte) error {
				t.Error("what failed was done in recovery")
				return nil
			})
			if err != nil || lost.Changes > 0 {
				t.Fatal(lost, err)
			}
			if _, err := f.Lookup(Node(MainView, RootIno), "before"); err != nil {
				t.Errorf("after recovery: %v", err)
			}
			if err := create(f, "after"); err != nil {
				t.Errorf("after recovery: %v", err)
			}
		})
	}
}

// TestPanicWhileReading: whoever panics while it reads leaves no lock either.
func TestPanicWhileReading(t *testing.T) {
	f := testForest(t, vfs.NewMem())
	f.readView = func(uint32) (*tree.State, error) { panic("view") }
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
		if !f.mu.TryLock() {
			t.Fatalf("%s: the lock is held", name)
		}
		f.mu.Unlock()
	}
}
