package snapshot

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/must"
)

// addLarge makes a file of so many MiB that share the bytes of the first.
func addLarge(t *testing.T, w *Workspace, mib int64) {
	t.Helper()
	f := w.Store().Forest()
	a, err := f.Create(w.Root(), "large", live.NewNode{Mode: unix.S_IFREG | 0o644})
	must.OK(t, err)
	data := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{byte(w.View())}).Read(data)
	_, err = f.Write(a.ID, data, 0, false)
	must.OK(t, err)
	for n := int64(1); n < mib; n *= 2 {
		_, err = f.CopyRange(a.ID, 0, a.ID, n<<20, n<<20)
		must.OK(t, err)
	}
}

// addText writes a file with a text.
func addText(t *testing.T, w *Workspace, text string) {
	t.Helper()
	f := w.Store().Forest()
	a, err := f.Lookup(w.Root(), "text")
	if errors.Is(err, errs.NotExist) {
		a, err = f.Create(w.Root(), "text", live.NewNode{Mode: unix.S_IFREG | 0o644})
	}
	if err == nil {
		_, err = f.Write(a.ID, []byte(text), 0, false)
	}
	must.OK(t, err)
}

// TestSealsGiveWay: while two forks have snapshots of large files sealed, and a checkpoint
// waits for them, another fork's snapshot and a gc end.
func TestSealsGiveWay(t *testing.T) {
	const mib, enough = 256, 6000 // looks, of 7,200 for such a file
	for what, shared := range map[string]bool{"a file each": false, "one file": true} {
		t.Run(what, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true})
			must.OK(t, err)
			defer s.Close()
			// Each chunk that is cut looks at the journal's end twice: the first waits until
			// the others wait, and late ones until these have ended.
			var looks atomic.Int64
			others, begin, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			begins, end := sync.OnceFunc(func() { close(others) }), sync.OnceFunc(func() { close(ended) })
			defer end()
			defer begins()
			s.sealer.Pacer.JournalEnd = func() int64 {
				switch n := looks.Add(1); {
				case n == 1:
					close(begin)
					<-others
				case n > enough:
					<-ended
				}
				return s.log.End()
			}
			s.ckpt.MaxGCSealBytes = 1 << 20
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
				_, err = w.Capture(CaptureOptions{Name: "v"})
				must.OK(t, err)
			}
			for _, w := range large {
				go wait(w)
			}
			await.Receive(t, "the first chunk", begin)
			await.Blocked(t, 2, "Snapshots.WaitSealed")
			go func() { waits <- s.Checkpoint(context.Background()) }()
			await.Blocked(t, 3, "(*Sealer).EnsureSealed")
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
			begins()
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
			if n := looks.Load(); n < enough {
				t.Errorf("no seal went on when others had ended: %d", n)
			}
			if r, err := s.Verify(t.Context(), nil); err != nil || len(r.Damage) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestEditsGiveWay: while a restore, an import or a merge of texts seals the workspace with a large file, a gc
// begins and ends, and takes nothing away from it.
func TestEditsGiveWay(t *testing.T) {
	const mib, enough = 128, 1500
	for what, edit := range map[string]func(w *Workspace, from *tree.State) error{
		"restore": func(w *Workspace, _ *tree.State) error {
			_, err := w.Restore(context.Background(), RestoreOptions{Name: "v"})
			return err
		},
		"import": func(w *Workspace, from *tree.State) error {
			_, err := w.Graft(context.Background(), GraftOptions{Tree: from})
			return err
		},
		"merge": func(w *Workspace, _ *tree.State) error {
			merge := func(_ context.Context, _ threeway.TextInput, merged func(threeway.MergedText) error) error {
				return merged(threeway.MergedText{Text: []byte("merged"), Clean: true})
			}
			_, err := w.Forks().Merge(context.Background(), MergeOptions{Fork: "from", Merge: merge})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, err := Open(filepath.Join(t.TempDir(), "store"), Options{Quiet: true, MaxJournaledSteps: 1})
			must.OK(t, err)
			if what == "merge" {
				addText(t, s.Main(), "before")
			}
			defer s.Close()
			s.ckpt.MaxGCSealBytes = 1 << 20
			from := forkNamed(t, s.Main(), "from")
			if what == "merge" {
				addText(t, from, "theirs")
				addText(t, s.Main(), "ours")
			}
			for i := range 3 {
				_, err = s.Forest().Create(from.Root(), string(rune('a'+i)), live.NewNode{Mode: unix.S_IFREG | 0o644})
				must.OK(t, err)
			}
			tree, release, err := from.SealPresent(t.Context())
			must.OK(t, err)
			defer release()
			addLarge(t, s.Main(), mib)
			_, err = s.Main().Capture(CaptureOptions{Name: "v"})
			must.OK(t, err)
			for _, name := range []string{"x", "y", "z"} {
				_, err = s.Forest().Create(s.Main().Root(), name, live.NewNode{Mode: unix.S_IFREG | 0o644})
				must.OK(t, err)
			}
			var looks atomic.Int64
			begin, waits, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
			end := sync.OnceFunc(func() { close(ended) })
			defer end()
			s.sealer.Pacer.JournalEnd = func() int64 {
				switch n := looks.Add(1); {
				case n == 1:
					close(begin)
					<-waits
				case n > enough:
					<-ended
				}
				return s.log.End()
			}
			edited, collected := make(chan error, 1), make(chan error, 1)
			go func() { edited <- edit(s.Main(), tree) }()
			await.Receive(t, "the first chunk", begin)
			go func() {
				_, err := s.GC(context.Background(), nil)
				collected <- err
			}()
			await.Blocked(t, 1, "(*Barrier).Wait")
			close(waits)
			if err := await.Receive(t, "gc", collected); err != nil {
				t.Error(err)
			}
			end()
			if err := await.Receive(t, what, edited); err != nil {
				t.Error(err)
			}
			if n := looks.Load(); n < enough {
				t.Errorf("the seal did not go on when gc had ended: %d", n)
			}
			if r, err := s.Verify(t.Context(), nil); err != nil || len(r.Damage) > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}
