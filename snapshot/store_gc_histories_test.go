package snapshot_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

// gcWorld is a store with a random history, and a gc at random points of it.
type gcWorld struct {
	*stores.Walker
	dir  string
	dead int                    // stores that were killed
	ask  atomic.Pointer[func()] // called before each operation of the disk
	pins []pinned
	inGC bool
}

// pinned is a state that is being read.
type pinned struct {
	name, text string
	state      *tree.State
}

// TestGCInHistories: whatever a history does while a gc marks and sweeps, and wherever the gc is
// killed, all states are there, also those that are being read, and those of a checkpoint that
// was made meanwhile.
func TestGCInHistories(t *testing.T) {
	for seed := range stores.FromEnv("SEEDS", 2) {
		w := &gcWorld{dir: filepath.Join(t.TempDir(), "store")}
		must.OK(t, os.Mkdir(w.dir, 0o700))
		disk, err := vfs.OpenRoot(w.dir)
		must.OK(t, err)
		defer disk.Close()
		s, err := stores.OpenOn(w.dir, stores.AskingDisk{FS: disk, Ask: func() error {
			if fn := w.ask.Load(); fn != nil {
				(*fn)()
			}
			return nil
		}})
		must.OK(t, err)
		w.Walker = &stores.Walker{T: t, R: rand.New(rand.NewPCG(uint64(seed), 45)), S: s, NoGC: true}
		if stores.KeepAll(t, s); seed%2 == 1 { // recovery begins far back
			s.GCWithoutCheckpoint()
		}
		for round := range stores.FromEnv("ROUNDS", 5) {
			for range 25 {
				w.change()
			}
			if round%2 == 0 {
				w.killedGC()
			} else {
				w.gcBesideChanges()
			}
			w.check("after a gc", s)
		}
		must.OK(t, s.Close())
	}
}

// change makes a step in some workspace, and perhaps one of the history. It may pin a state.
func (w *gcWorld) change() {
	all := stores.Workspaces(w.S)
	slices.SortFunc(all, func(a, b *snapshot.Workspace) int { return int(a.View()) - int(b.View()) })
	at := all[w.R.IntN(len(all))]
	err := w.Step(at)
	switch k := w.R.IntN(20); {
	case k < 8:
		err = w.History()
	case k < 11:
		err = w.again(at)
	case k == 11 && len(w.pins) < 4:
		var st *tree.State
		if l := at.List(); len(l) > 0 {
			i := l[w.R.IntN(len(l))]
			var release func()
			if st, release, err = at.HoldState(i.Name); err == nil {
				w.T.Cleanup(release)
				w.pins = append(w.pins, pinned{i.Name, stores.Dump(w.T, w.S, st), st})
				err = at.Snapshots().Delete(i.Name, actors.Caller{})
			}
		}
	}
	if !stores.Expected(err) {
		w.T.Fatal(err)
	}
}

// again writes bytes that were there before, perhaps in what a gc is about to remove, and seals
// them.
func (w *gcWorld) again(at *snapshot.Workspace) error {
	_, id, _, ok := w.Node(at, false)
	if !ok {
		return nil
	}
	_, err := w.S.Forest().Write(id, bytes.Repeat([]byte{byte(w.R.IntN(2))}, 5000), 0, false)
	if err != nil {
		return err
	}
	i, err := at.Capture(snapshot.CaptureOptions{})
	if err == nil {
		_, err = at.Snapshots().WaitSealed(context.Background(), i.Name)
	}
	if err == nil {
		err = at.Snapshots().Delete(i.Name, actors.Caller{})
	}
	return err
}

// killedGC runs a gc, and copies the store before some operation of the disk, as a kill there
// leaves it.
func (w *gcWorld) killedGC() {
	want, left := stores.Portrait(w.T, w.S), int64(w.R.IntN(150))
	var n atomic.Int64
	copied := ""
	kill := func() {
		if n.Add(1) == left {
			copied = w.copied()
		}
	}
	w.ask.Store(&kill)
	_, err := w.S.GC(context.Background(), nil)
	w.ask.Store(nil)
	must.OK(w.T, err)
	if copied != "" {
		w.opens(fmt.Sprintf("killed before operation %d of %d of a gc", left, n.Load()), copied, want)
	}
}

// gcBesideChanges runs a gc, goes on with the history between objects that it marks and packs
// that it sweeps, and kills the store at one of these points.
func (w *gcWorld) gcBesideChanges() {
	points, killAt := 0, w.R.IntN(60)
	between := func() {
		if w.inGC { // by a seal of the history
			return
		}
		w.inGC = true
		defer func() { w.inGC = false }()
		if points++; w.R.IntN(12) == 0 {
			w.change()
		}
		if w.R.IntN(60) == 0 {
			must.OK(w.T, w.S.Checkpoint(context.Background()))
		}
		if points == killAt {
			want := stores.Portrait(w.T, w.S)
			w.opens(fmt.Sprintf("killed at point %d of a gc", points), w.copied(), want)
		}
	}
	w.S.WhileMarking(between)
	_, err := w.S.GC(context.Background(), func(int64, int64) { between() })
	w.S.WhileMarking(nil)
	must.OK(w.T, err)
}

func (w *gcWorld) copied() string {
	w.dead++
	dead := fmt.Sprint(w.dir, w.dead)
	must.CopyStore(w.T, dead, w.dir)
	return dead
}

// opens opens a killed store, and compares it.
func (w *gcWorld) opens(what, dir string, want map[string]string) {
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true})
	if err != nil {
		w.T.Fatal(what, err)
	}
	stores.Compare(w.T, what, stores.Portrait(w.T, s), want)
	_, err = s.GC(context.Background(), nil)
	must.OK(w.T, err)
	stores.Compare(w.T, what+", after another gc", stores.Portrait(w.T, s), want)
	w.whole(what, s)
	must.OK(w.T, s.Close())
	must.OK(w.T, os.RemoveAll(dir))
}

// whole looks for every object that is needed.
func (w *gcWorld) whole(what string, s *snapshot.Store) {
	needed, err := s.Reachable(context.Background())
	must.OK(w.T, err)
	for h := range needed {
		if there, err := s.CAS().Has(h); err != nil || !there {
			w.T.Fatalf("%s: %s is needed and gone: %v", what, h, err)
		}
	}
}

func (w *gcWorld) check(what string, s *snapshot.Store) {
	w.whole(what, s)
	for _, p := range w.pins {
		stores.Compare(w.T, what, map[string]string{p.name: stores.Dump(w.T, s, p.state)}, map[string]string{p.name: p.text})
	}
}
