package crash_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/fsmodel"
	"github.com/amberfs/amberfs/tests/harness"
)

// keepHistory captures, restores, forks, deletes and collects until the daemon
// is gone.
func (w *world) keepHistory(rng *rand.Rand) {
	actions := []func(*rand.Rand) bool{
		w.capture, w.capture, w.capture, w.captureInBetween, w.captureInBetween,
		w.restore, w.delete, w.changeFork, w.changeFork, w.makeFork, w.endFork, w.collect, w.sync,
	}
	for !w.t.Failed() {
		if stop := actions[rng.IntN(len(actions))](rng); stop {
			return
		}
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
}

// request does what the historian wants done, and remembers what it wanted
// when no answer comes.
func (w *world) request(u intent, do func() error) (stop bool) {
	w.unsure = &u
	err := do()
	if dead(err) || err != nil && w.gone() {
		return true
	}
	w.unsure = nil
	if err != nil {
		w.t.Errorf("%s %s: %v", u.what, u.name, err)
		return true
	}
	w.apply(u)
	return false
}

// apply is what a request does to the model.
func (w *world) apply(u intent) {
	w.done[u.what]++
	switch u.what {
	case "capture":
		w.snaps[u.name] = u.to
	case "restore":
		w.now = u.to.clone()
	case "delete":
		delete(w.snaps, u.name)
	case "fork":
		w.fork = &forked{name: u.name, now: u.to.clone()}
	case "end fork":
		w.fork = nil
	}
}

// outcome finds out what has become of an unanswered request.
func (w *world) outcome(u *intent) {
	exists := func(at string) bool {
		_, err := os.Lstat(w.m.Path(at, u.name))
		return err == nil
	}
	happened := false
	switch u.what {
	case "capture":
		happened = exists(".snapshots")
	case "delete":
		happened = !exists(".snapshots")
	case "fork":
		happened = exists(".forks")
	case "end fork":
		happened = !exists(".forks")
	case "restore":
		// All writers' directories are from after, or else compare finds
		// that all are from before.
		happened = true
		for i := range writers {
			got, err := fsmodel.Observe(w.dir("", i))
			if err != nil {
				w.t.Error(err)
				return
			}
			happened = happened && fsmodel.Compare(u.to[i].List(), got) == ""
		}
	}
	if happened {
		w.apply(*u)
	}
}

func (w *world) newName(prefix string) string {
	w.names++
	return fmt.Sprintf("%s%d", prefix, w.names)
}

func (w *world) snapshots() string { return w.m.Path(".snapshots") }

// capture takes a state that is known to the byte, because no process writes.
func (w *world) capture(rng *rand.Rand) bool {
	if len(w.snaps) >= 5 {
		return w.delete(rng)
	}
	w.calm.Lock()
	defer w.calm.Unlock()
	u := intent{what: "capture", name: w.newName("v"), to: w.now.clone()}
	return w.request(u, func() error { return unix.Mkdir(filepath.Join(w.snapshots(), u.name), 0o755) })
}

// captureInBetween captures while writers write; what is in it is a question
// for tests/history. It goes again at once.
func (w *world) captureInBetween(*rand.Rand) bool {
	name := w.newName("busy")
	path := filepath.Join(w.snapshots(), name)
	if w.request(intent{what: "busy capture", name: name}, func() error { return unix.Mkdir(path, 0o755) }) {
		return true
	}
	return w.request(intent{what: "busy delete", name: name}, func() error { return unix.Rmdir(path) })
}

func (w *world) some(rng *rand.Rand) (string, state, bool) {
	names := slices.Sorted(maps.Keys(w.snaps))
	if len(names) == 0 {
		return "", state{}, false
	}
	name := names[rng.IntN(len(names))]
	return name, w.snaps[name], true
}

func (w *world) restore(rng *rand.Rand) bool {
	name, s, ok := w.some(rng)
	if !ok {
		return false
	}
	w.calm.Lock()
	defer w.calm.Unlock()
	return w.request(intent{what: "restore", name: name, to: s}, func() error {
		return unix.Rename(filepath.Join(w.snapshots(), "restore"), filepath.Join(w.snapshots(), "restore@"+name))
	})
}

func (w *world) delete(rng *rand.Rand) bool {
	name, _, ok := w.some(rng)
	if !ok {
		return false
	}
	return w.request(intent{what: "delete", name: name}, func() error { return unix.Rmdir(filepath.Join(w.snapshots(), name)) })
}

func (w *world) makeFork(rng *rand.Rand) bool {
	name, s, ok := w.some(rng)
	if !ok || w.fork != nil {
		return false
	}
	u := intent{what: "fork", name: w.newName("f"), to: s}
	return w.request(u, func() error {
		return os.WriteFile(filepath.Join(w.snapshots(), "fork"), []byte(name+" "+u.name+"\n"), 0o644)
	})
}

func (w *world) endFork(*rand.Rand) bool {
	if w.fork == nil {
		return false
	}
	return w.request(intent{what: "end fork", name: w.fork.name}, func() error { return unix.Rmdir(w.m.Path(".forks", w.fork.name)) })
}

func (w *world) changeFork(rng *rand.Rand) bool {
	f := w.fork
	if f == nil {
		return false
	}
	for range 1 + rng.IntN(10) {
		op := fsmodel.Random(rng, f.now[0], limits)
		err := op.Do(w.dir(filepath.Join(".forks", f.name), 0))
		if dead(err) || err != nil && w.gone() {
			f.pending = &op
			return true
		}
		_ = op.Apply(f.now[0])
		w.done["fork change"]++
	}
	return false
}

// collect runs gc beside everything else; nothing may change by it.
func (w *world) collect(*rand.Rand) bool {
	out, err := harness.RunAmberfs("-C", w.m.Dir, "gc")
	if err != nil {
		if w.gone() {
			return true
		}
		w.t.Errorf("amberfs gc: %v\n%s", err, out)
		return true
	}
	w.done["gc"]++
	return false
}

func (w *world) sync(*rand.Rand) bool {
	fd, err := unix.Open(w.dir("", 0), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err == nil {
		err = unix.Fsync(fd)
		unix.Close(fd)
	}
	if err != nil && !w.gone() {
		w.t.Errorf("fsync: %v", err)
	}
	return err != nil
}
