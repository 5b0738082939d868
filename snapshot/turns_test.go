package snapshot

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/await"
)

// countedReads is a disk that counts bytes of the journal before it reads them.
type countedReads struct {
	vfs.FS
	read func(n int)
}

type countedFile struct {
	vfs.File
	read func(n int)
}

func (c countedReads) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := c.FS.OpenFile(name, flag, perm)
	if err == nil && strings.HasSuffix(name, ".seg") {
		f = countedFile{f, c.read}
	}
	return f, err
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.read(len(p))
	return f.File.ReadAt(p, off)
}

// addLarge makes a file of so many MiB that share the bytes of the first.
func addLarge(t *testing.T, w *Workspace, mib int64) {
	t.Helper()
	f := w.Store().Forest()
	a, err := f.Create(w.Root(), "large", live.Create{Mode: unix.S_IFREG | 0o644})
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{byte(w.View())}).Read(data)
	if _, err := f.Write(a.ID, data, 0, false); err != nil {
		t.Fatal(err)
	}
	for n := int64(1); n < mib; n *= 2 {
		if _, err := f.CopyRange(a.ID, 0, a.ID, n<<20, n<<20); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSealsGiveWay: while two forks have snapshots of large files sealed, and a checkpoint
// waits for them, another fork's snapshot and a gc end.
func TestSealsGiveWay(t *testing.T) {
	const mib = 128 // of each file; others must have ended when so much of them is read
	for what, shared := range map[string]bool{"a file each": false, "one file": true} {
		t.Run(what, func(t *testing.T) {
			var mu sync.Mutex
			read := int64(-1) // not counted yet
			others, begin, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			end := sync.OnceFunc(func() { close(ended) })
			defer end()
			s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true, FS: countedReads{vfs.OS, func(n int) {
				mu.Lock()
				first := read == 0
				if read >= 0 {
					read += int64(n)
				}
				late := read > mib<<20
				mu.Unlock()
				if first {
					close(begin)
					<-others
				}
				if late {
					<-ended
				}
			}}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			s.ckpt.gcWork = 16 << 20
			other := forkNamed(t, s.Main(), "other")
			if shared {
				addLarge(t, s.Main(), mib*2)
			}
			large := []*Workspace{forkNamed(t, s.Main(), "a"), forkNamed(t, s.Main(), "b")}
			waits := make(chan error, 10)
			wait := func(w *Workspace) {
				_, err := w.Snapshots().WaitSealed(context.Background(), "v")
				waits <- err
			}
			for _, w := range append(large, other) {
				if !shared && w != other {
					addLarge(t, w, mib)
				}
				if _, err := w.Capture(CaptureOptions{Name: "v"}); err != nil {
					t.Fatal(err)
				}
			}
			mu.Lock()
			read = 0
			mu.Unlock()
			for _, w := range large {
				go wait(w)
			}
			await.Receive(t, "the first read of a seal", begin)
			await.Blocked(t, 2, "Snapshots.WaitSealed")
			go func() { waits <- s.Checkpoint(context.Background()) }()
			await.Blocked(t, 3, "(*Sealer).Wait")
			sealed, collected := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := other.Snapshots().WaitSealed(context.Background(), "v")
				sealed <- err
			}()
			go func() {
				_, err := s.GC(context.Background(), nil)
				collected <- err
			}()
			await.Blocked(t, 1, "(*Barrier).Wait")
			close(others)
			for what, done := range map[string]chan error{"the snapshot of the other fork": sealed, "gc": collected} {
				if err := await.Receive(t, what, done); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
			end()
			for range 3 {
				if err := await.Receive(t, "the large files and the checkpoint", waits); err != nil {
					t.Error(err)
				}
			}
			if r, err := s.Verify(t.Context(), nil); err != nil || len(r.Damage) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
