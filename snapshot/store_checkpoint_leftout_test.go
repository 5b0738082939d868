package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/engine"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/stores"
)

func openQuiet(t *testing.T, dir string, p *place, start *snapshot.StartSnapshot) *snapshot.Store {
	t.Helper()
	s, err := snapshot.Open(dir, snapshot.Options{Quiet: true, Connect: func(snapshot.ConnectArgs) (tree.RemoteObjects, *snapshot.StartSnapshot, error) {
		return p, start, nil
	}})
	must.OK(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// setAway has the place answer or not.
func (p *place) setAway(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// TestCheckpointLeavesOut: in a fork a chunk of a file was changed the rest of which is on a
// remote that does not answer. It can be sealed neither as it is nor as a snapshot has it. The
// checkpoint does everything else, the journal goes, and once the remote answers nothing is
// missing.
func TestCheckpointLeavesOut(t *testing.T) {
	ctx, p := context.Background(), newPlace()
	noise := make([]byte, 1<<20)
	rand.NewChaCha8([32]byte{3}).Read(noise)
	big := string(noise)
	a := open(t, t.TempDir())
	write(t, a, a.Main().Root(), "big", big)
	_, err := a.Main().Capture(snapshot.CaptureOptions{Name: "v1"})
	must.OK(t, err)
	start := startOf(t, p.push(t, a.Main(), "v1"))

	dir := filepath.Join(t.TempDir(), "store")
	s := openQuiet(t, dir, p, start)
	fork, err := s.Main().Forks().New(snapshot.ForkOptions{Name: "f"})
	must.OK(t, err)
	must.OK(t, s.Checkpoint(ctx))
	_ = read(t, s, fork.Root(), "note")
	var node live.Attr
	present(t, func() (err error) {
		node, err = s.Forest().Lookup(fork.Root(), "big")
		return err
	})
	patch := func(at int, text string) {
		present(t, func() error {
			_, err := s.Forest().Write(node.ID, []byte(text), int64(at), false)
			return err
		})
		big = big[:at] + text + big[at+len(text):]
	}
	patch(500_000, "first")
	write(t, s, fork.Root(), "note", "in the fork")
	_, err = fork.Capture(snapshot.CaptureOptions{Name: "v"})
	must.OK(t, err)
	then := big
	patch(700_000, "second")
	for i := range 100 {
		write(t, s, s.Main().Root(), "much", strings.Repeat(fmt.Sprint(i), 1<<20))
	}
	p.setAway(true)

	check := func(what string, s *snapshot.Store, healthy bool) {
		t.Helper()
		st := s.Main().Status()
		if healthy != (st.Health == "ok") || healthy != (engine.LastCheckpointError(s.Dir()) == "") {
			t.Errorf("%s: health %s, on disk %q", what, st.Health, engine.LastCheckpointError(s.Dir()))
		}
		if n := st.JournalBytes; n > 80<<20 {
			t.Errorf("%s: the journal has %d bytes", what, n)
		}
	}
	whole := func(what string, s *snapshot.Store) {
		t.Helper()
		for name, files := range map[string]map[string]string{
			".":        {"much": strings.Repeat("99", 1<<20)},
			".forks/f": {"note": "in the fork"},
		} {
			root := s.Main().Root()
			if name != "." {
				root = forkOf(t, s, "f").Root()
			}
			for file, content := range files {
				if read(t, s, root, file) != content {
					t.Errorf("%s: %s is another", what, file)
				}
			}
		}
		n, err := s.Forest().Lookup(forkOf(t, s, "f").Root(), "big")
		must.OK(t, err)
		got := make([]byte, 6)
		_, err = s.Forest().ReadAt(n.ID, got, 700_000)
		must.OK(t, err)
		want(t, what+": what was changed", string(got), "second")
	}
	for range 2 {
		must.OK(t, s.Checkpoint(ctx))
		check("away", s, false)
		_, err = s.GC(ctx, nil)
		must.OK(t, err)
		whole("away", s)
	}
	for range 2 { // a kill
		dead := filepath.Join(t.TempDir(), "dead")
		must.CopyStore(t, dead, s.Dir())
		s = openQuiet(t, dead, p, nil)
		whole("after a kill", s)
		if _, err := forkOf(t, s, "f").Snapshots().WaitSealed(ctx, "v"); err == nil {
			t.Error("the snapshot is sealed")
		}
		must.OK(t, s.Checkpoint(ctx))
		check("after a kill", s, false)
		s.GCWithoutCheckpoint()
		made := s.Main().Status().Metrics.Checkpoints
		_, err = s.GC(ctx, nil)
		must.OK(t, err)
		if n := s.Main().Status().Metrics.Checkpoints; n != made {
			t.Error("gc made a checkpoint")
		}
		r, err := s.Verify(ctx, nil)
		must.OK(t, err)
		if !r.OK() {
			t.Errorf("away: %+v", r)
		}
	}

	p.setAway(false)
	must.OK(t, s.Checkpoint(ctx))
	check("when it answers again", s, true)
	whole("when it answers again", s)
	f := forkOf(t, s, "f")
	want(t, "the file", fmt.Sprint(read(t, s, f.Root(), "big") == big), "true")
	sn := stores.Find(t, f, "v")
	if !sn.Sealed {
		t.Error("the snapshot is not sealed")
	}
	want(t, "the snapshot", fmt.Sprint(read(t, s, live.Node(sn.View, live.RootIno), "big") == then), "true")
	_, err = s.GC(ctx, nil)
	must.OK(t, err)
	r, err := s.Verify(ctx, nil)
	must.OK(t, err)
	if !r.OK() {
		t.Errorf("%+v", r)
	}
	must.OK(t, f.Snapshots().Delete("v", actors.Caller{}))
	must.OK(t, s.Close())
	s = openQuiet(t, s.Dir(), p, nil)
	whole("at the end", s)
	want(t, "the file at the end", fmt.Sprint(read(t, s, forkOf(t, s, "f").Root(), "big") == big), "true")
}

func forkOf(t *testing.T, s *snapshot.Store, name string) *snapshot.Workspace {
	t.Helper()
	for _, f := range s.Main().Forks().List() {
		if w, ok := s.Workspace(f.View); ok && f.Name == name {
			return w
		}
	}
	t.Fatal(errors.New("no fork " + name))
	return nil
}

// flaky are objects that a seal cannot read, or only some of them. Seals run in the background.
type flaky struct {
	*cas.Store
	mu    sync.Mutex
	r     *rand.Rand
	share int // one in so many is read; 0: all
}

func (u *flaky) reads(share int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.share = share
}

func (u *flaky) away() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.share > 0 && u.r.IntN(u.share) > 0
}

func (u *flaky) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if u.away() {
		return dst[:0], stores.ErrAway
	}
	return u.Store.Get(h, dst)
}

// TestHistoriesWithUnreadableFiles: random histories with checkpoints that can read some of the
// files that they seal, and with kills, come to the same as if nothing had happened.
func TestHistoriesWithUnreadableFiles(t *testing.T) {
	ctx := context.Background()
	seeds, rounds := stores.FromEnv("SEEDS", 3), 30
	if !long {
		seeds, rounds = 1, 12
	}
	for seed := stores.FromEnv("SEED", 0); seed < seeds; seed++ {
		r := rand.New(rand.NewPCG(uint64(seed), 77))
		s, err := stores.OpenOn(filepath.Join(t.TempDir(), "store"), nil)
		must.OK(t, err)
		stores.KeepAll(t, s)
		u := &flaky{Store: s.CAS(), r: rand.New(rand.NewPCG(uint64(seed), 14))}
		s.SealThrough(u)
		x := &stores.Walker{T: t, R: r, S: s}
		failed := int64(0)
		for round := range rounds {
			u.reads([]int{0, 3, 100}[r.IntN(3)])
			for range 40 {
				ws := stores.Workspaces(s)
				sort.Slice(ws, func(i, j int) bool { return ws[i].View() < ws[j].View() })
				err := x.Step(ws[r.IntN(len(ws))])
				if stores.Expected(err) && r.IntN(4) == 0 {
					err = x.History()
				}
				if !stores.Expected(err) {
					t.Fatal(err)
				}
			}
			if r.IntN(4) > 0 {
				must.OK(t, s.Checkpoint(ctx))
			}
			if r.IntN(3) == 0 {
				s.GCWithoutCheckpoint()
			}
			if r.IntN(2) == 0 {
				_, err := s.GC(ctx, nil)
				must.OK(t, err)
			}
			all := stores.Portrait(t, s)
			failed += s.Main().Status().Metrics.CheckpointsFailed
			dead := filepath.Join(t.TempDir(), "dead")
			copyDir(t, s.Dir(), dead)
			u.reads(0)
			must.OK(t, s.Close())
			s, err = stores.OpenOn(dead, nil)
			must.OK(t, err)
			what := fmt.Sprintf("seed %d, round %d", seed, round)
			stores.Compare(t, what, stores.Portrait(t, s), all)
			if t.Failed() {
				t.FailNow()
			}
			u.Store, x.S = s.CAS(), s
			s.SealThrough(u)
		}
		t.Logf("seed %d: %d checkpoints failed for some files", seed, failed)
		must.OK(t, s.Checkpoint(ctx))
		if st := s.Main().Status(); st.Health != "ok" || failed == 0 {
			t.Errorf("seed %d: health %s; %d checkpoints failed", seed, st.Health, failed)
		}
		rep, err := s.Verify(ctx, nil)
		must.OK(t, err)
		if !rep.OK() {
			t.Errorf("%+v", rep)
		}
		must.OK(t, s.Close())
	}
}
