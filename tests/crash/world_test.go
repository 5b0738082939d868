package crash_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

const writers = 4

var limits = fsmodel.Limits{Files: 25, Size: 64 << 10}

// A state is what the directories of all writers hold.
type state [writers]*fsmodel.FS

func (s state) clone() state {
	for i, fs := range s {
		s[i] = fs.Clone()
	}
	return s
}

// A world is what the store must hold, as far as it was acknowledged.
type world struct {
	t    *testing.T
	m    *harness.Mount
	seed uint64

	// A writer holds calm for reading during a call; who needs the whole
	// tree to hold still takes it for writing.
	calm sync.RWMutex
	wg   sync.WaitGroup

	now     state
	pending [writers]*fsmodel.Op // the call of a writer that was not answered

	// What the historian knows; only it and the comparison touch these.
	snaps   map[string]state
	fork    *forked
	unsure  *intent // the historian's request that was not answered
	names   int
	changes [writers]int
	done    map[string]int
}

// A forked is the one fork that is there, and what it must hold.
type forked struct {
	name    string
	now     state
	pending *fsmodel.Op // of its first directory
}

// An intent is a request of the historian: afterwards either none of it has
// happened or all.
type intent struct {
	what string
	name string // of the snapshot or fork
	to   state  // what it makes, where that is known
}

func newWorld(t *testing.T, m *harness.Mount, seed uint64) *world {
	w := &world{t: t, m: m, seed: seed, snaps: map[string]state{}, done: map[string]int{}}
	for i := range w.now {
		w.now[i] = fsmodel.New()
		must.OK(t, os.Mkdir(w.dir("", i), 0o755))
	}
	return w
}

// dir is the directory of writer i in the tree at `at` below the mount.
func (w *world) dir(at string, i int) string { return w.m.Path(at, fmt.Sprintf("w%d", i)) }

// begin lets the writers and the historian loose.
func (w *world) begin(round int) {
	for i := range writers {
		rng := rand.New(rand.NewPCG(w.seed, uint64(round*100+i)))
		w.wg.Go(func() { w.write(i, rng) })
	}
	rng := rand.New(rand.NewPCG(w.seed, uint64(round*100+99)))
	w.wg.Go(func() { w.keepHistory(rng) })
}

// end waits until all have noticed that the daemon is gone.
func (w *world) end() { w.wg.Wait() }

// dead says whether a call failed because the daemon was killed.
func dead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ECONNABORTED)
}

func (w *world) write(i int, rng *rand.Rand) {
	for !w.t.Failed() {
		w.calm.RLock()
		stop := w.step(i, rng)
		w.calm.RUnlock()
		if stop {
			return
		}
	}
}

func (w *world) step(i int, rng *rand.Rand) (stop bool) {
	op := fsmodel.Random(rng, w.now[i], limits)
	err := op.Do(w.dir("", i))
	if dead(err) || err != nil && w.gone() {
		w.pending[i] = &op
		return true
	}
	if want := op.Apply(w.now[i]); !errors.Is(err, want) {
		w.t.Errorf("writer %d: %v: got %v, want %v", i, op, err, want)
		return true
	}
	w.changes[i]++
	return false
}

// gone says whether the mount is dead: while it is taken away, paths below it
// are no longer there, which is another error than a dead daemon's.
func (w *world) gone() bool {
	_, err := os.Lstat(w.m.Path(".snapshots", "README"))
	return err != nil
}

// compare looks at all there is after mounting again, and goes on from there.
func (w *world) compare() {
	if u := w.unsure; u != nil {
		w.outcome(u)
		w.unsure = nil
	}
	for i := range writers {
		w.now[i] = w.either(w.dir("", i), w.now[i], w.pending[i])
		w.pending[i] = nil
	}
	for name, s := range w.snaps {
		for i := range writers {
			w.either(w.dir(filepath.Join(".snapshots", name), i), s[i], nil)
		}
	}
	if f := w.fork; f != nil {
		for i := range writers {
			var op *fsmodel.Op
			if i == 0 {
				op = f.pending
			}
			f.now[i] = w.either(w.dir(filepath.Join(".forks", f.name), i), f.now[i], op)
		}
		f.pending = nil
	}
	w.prune()
}

// prune removes the snapshots that no model is kept of (undo points, last
// states of forks, what a kill left between two requests), so that a thousand
// rounds do not pile them up.
func (w *world) prune() {
	list, err := os.ReadFile(w.m.Path(".snapshots", "list"))
	if err != nil {
		w.t.Error(err)
		return
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(list)) {
		if name, _, ok := strings.Cut(line, "\t"); ok {
			listed[name] = true
		}
	}
	for name := range w.snaps {
		if !listed[name] {
			w.t.Errorf("snapshot %s is not in the list", name)
		}
		delete(listed, name)
	}
	if len(listed) < 20 {
		return
	}
	for name := range listed {
		if err := unix.Rmdir(w.m.Path(".snapshots", name)); err != nil {
			w.t.Errorf("removing %s: %v", name, err)
		}
	}
}

// either compares a directory with its model, without or with one more
// operation, and returns the one that it is.
func (w *world) either(dir string, fs *fsmodel.FS, op *fsmodel.Op) *fsmodel.FS {
	got, err := fsmodel.Observe(dir)
	if err != nil {
		w.t.Error(err)
		return fs
	}
	without := fsmodel.Compare(fs.List(), got)
	if without == "" {
		return fs
	}
	if op == nil {
		w.t.Errorf("%s:\n%s", dir, without)
		return fs
	}
	var with string
	for _, part := range op.Partly(fs) {
		more := fs.Clone()
		_ = part.Apply(more) // what must fail changes nothing
		if with = fsmodel.Compare(more.List(), got); with == "" {
			return more
		}
	}
	w.t.Errorf("%s, without the unanswered %v:\n%sand with it:\n%s", dir, op, without, with)
	return fs
}

func (w *world) counts() string {
	sum := 0
	for _, n := range w.changes {
		sum += n
	}
	return fmt.Sprintf("%d changes, %v", sum, w.done)
}
