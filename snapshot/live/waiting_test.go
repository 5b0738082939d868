package live

import (
	"errors"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/vfstest"
)

// A slowDisk lets reads begin, and end only when they may.
type slowDisk struct {
	content.Log
	slow   atomic.Bool
	begun  chan struct{}
	may    chan struct{}
	failed atomic.Pointer[error] // what a read returns that waited
}

func (d *slowDisk) wait() error {
	if !d.slow.Load() {
		return nil
	}
	d.begun <- struct{}{}
	<-d.may
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (d *slowDisk) ReadAt(p []byte, pos, payload int64) error {
	if err := d.wait(); err != nil {
		return err
	}
	return d.Log.ReadAt(p, pos, payload)
}

// slowForest has a fork and, in main, the file f.
func slowForest(t *testing.T) (f *Forest, d *slowDisk, file NodeID) {
	t.Helper()
	f = testForest(t, vfstest.NewMem())
	d = &slowDisk{Log: f.log, begun: make(chan struct{}), may: make(chan struct{})}
	f.src = tree.NewSource(nil, d, 1<<20)
	f.waiting = f.src
	made, err := f.Create(Node(MainView, RootIno), "f", Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Update(true, func(tx *Tx) error {
		tx.AddView(MainView+1, tree.NewRoot(tx.Epoch(), unix.S_IFDIR|0o755, 0, 0, 1))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return f, d, made.ID
}

// whileReading calls fn while a read of the disk, which begin causes, goes on. It ends with
// the answer of begin.
func whileReading(t *testing.T, d *slowDisk, begin, fn func() error) error {
	t.Helper()
	d.slow.Store(true)
	answer, done := make(chan error, 1), make(chan error, 1)
	go func() { answer <- begin() }()
	await.Receive(t, "a read of the disk", d.begun)
	go func() { done <- fn() }()
	if err := await.Receive(t, "a request during the read of another one", done); err != nil {
		t.Error(err)
	}
	d.slow.Store(false)
	d.may <- struct{}{}
	return await.Receive(t, "the read", answer)
}

// others are requests of all kinds, in two views.
func others(f *Forest, file NodeID) error {
	fork := Node(MainView+1, RootIno)
	made, err := f.Create(fork, "new", Create{Mode: unix.S_IFREG | 0o644})
	_, err2 := f.Write(made.ID, []byte("new"), 0, false)
	_, err3 := f.GetAttr(file)
	_, err4 := f.Lookup(Node(MainView, RootIno), "f")
	_, err5 := f.Unlink(fork, "new")
	return errors.Join(err, err2, err3, err4, err5)
}

// TestReadWaitsAlone: while the bytes of a file are read from the disk, other requests go on,
// and the file can change. The reader gets the bytes of when it began.
func TestReadWaitsAlone(t *testing.T) {
	f, d, file := slowForest(t)
	if _, err := f.Write(file, []byte("before"), 0, false); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 10)
	var n int
	err := whileReading(t, d, func() (err error) {
		n, err = f.ReadAt(file, got, 0)
		return err
	}, func() error {
		_, err := f.Write(file, []byte("afterwards"), 0, false)
		return errors.Join(err, others(f, file))
	})
	if err != nil || string(got[:n]) != "before" {
		t.Errorf("%q, %v", got[:n], err)
	}
}

// TestReadOfWhatIsRemoved: if bytes are removed before a reader gets them, because the file
// has them elsewhere by then, it reads again; if not, that is damage.
func TestReadOfWhatIsRemoved(t *testing.T) {
	f, d, file := slowForest(t)
	if _, err := f.Write(file, []byte("before"), 0, false); err != nil {
		t.Fatal(err)
	}
	removed := errors.New("removed")
	d.failed.Store(&removed)
	got := make([]byte, 10)
	var n int
	read := func() (err error) {
		n, err = f.ReadAt(file, got, 0)
		return err
	}
	if err := whileReading(t, d, read, func() error {
		_, err := f.Write(file, []byte("after"), 0, false)
		return err
	}); err != nil || string(got[:n]) != "aftere" {
		t.Errorf("%q, %v", got[:n], err)
	}
	d.slow.Store(true)
	answer := make(chan error, 1)
	go func() { answer <- read() }()
	for range 2 {
		await.Receive(t, "a read of the disk", d.begun)
		d.may <- struct{}{}
	}
	if err := await.Receive(t, "the read", answer); !errors.Is(err, removed) || errs.Of(err) != errs.Damaged {
		t.Error(err)
	}
}
