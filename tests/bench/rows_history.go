package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// times is how often a row of history does its work in one repetition, unless
// that takes longer than longest.
const (
	times   = 9
	longest = 5 * time.Second
)

// medianOf times do, with something before it each time that does not count. The
// daemon's counters are read around one more time: they cost it as much as what
// is timed.
func (w *work) medianOf(times int, before, do func() error) (float64, error) {
	var all []float64
	for end := time.Now().Add(longest); len(all) == 0 || len(all) < times && time.Now().Before(end); {
		if err := before(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		all = append(all, ms(time.Since(start)))
	}
	if w.place.metrics != "" {
		if err := before(); err != nil {
			return 0, err
		}
		if _, err := w.timed(1, do); err != nil {
			return 0, err
		}
	}
	return median(all), w.b.ctx.Err()
}

// onTree is a row's work on a history of n files.
func onTree(n int, do func(w *work, g *grown) (float64, error)) func(*work) (float64, error) {
	return func(w *work) (float64, error) {
		g, err := w.tree(w.n(n))
		if err != nil {
			return 0, err
		}
		return do(w, g)
	}
}

// capture is a snapshot after ten files changed, so many that most are made while
// the first is being sealed.
func capture(take func(h history, name string) error) func(*work, *grown) (float64, error) {
	return func(w *work, g *grown) (float64, error) {
		return w.medianOf(times, g.change, func() error { return take(g.history, g.next()) })
	}
}

// restore takes ten changed files back.
func restore(back func(h history, name string) error) func(*work, *grown) (float64, error) {
	return func(w *work, g *grown) (float64, error) {
		name := g.next()
		if err := g.capture(name); err != nil {
			return 0, err
		}
		return w.medianOf(times, g.change, func() error { return back(g.history, name) })
	}
}

func fork(w *work, g *grown) (float64, error) {
	i := 0
	path := func() string { return filepath.Join(g.root(), ".forks", fmt.Sprintf("fork%d", i)) }
	f, err := w.medianOf(times, func() error { i++; return nil }, func() error { return unix.Mkdir(path(), 0o755) })
	for ; i > 0 && err == nil; i-- {
		err = unix.Rmdir(path())
	}
	return f, err
}

// diffTen reads the patch of ten changed files.
func diffTen(w *work, g *grown) (float64, error) {
	name := g.next()
	if err := g.capture(name); err != nil {
		return 0, err
	}
	return w.medianOf(times, g.change, func() error {
		patch, err := os.ReadFile(filepath.Join(g.root(), ".snapshots", "diff@"+name))
		if err == nil && len(patch) == 0 {
			err = errors.New("the patch is empty")
		}
		return err
	})
}

// reopen is from `amberfs mount` until it returned with the mount ready.
func reopen(w *work, g *grown) (float64, error) {
	h := g.history.(*amberHistory)
	var all []float64
	for range 3 {
		took, err := h.reopen()
		if err != nil {
			return 0, err
		}
		all = append(all, ms(took))
	}
	return median(all), nil
}

// seal is from the capture until the snapshot has its id, while two others
// write small files.
func seal(w *work) (f float64, err error) {
	h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "seal"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	n := w.n(1024)
	if err := newData(h.root(), n); err != nil {
		return 0, err
	}
	stop := make(chan struct{})
	ended := make(chan error)
	const writers = 2
	for i := range writers {
		go func() {
			dir := filepath.Join(h.root(), fmt.Sprintf("writer%d", i))
			err := os.Mkdir(dir, 0o755)
			for j := 0; err == nil; j++ {
				select {
				case <-stop:
					ended <- nil
					return
				default:
					err = createOne(name(dir, j%1000))
				}
			}
			ended <- err
		}()
	}
	w.look(h)
	took, err := w.timed(n, func() error { return h.run("snapshot", "v") })
	close(stop)
	for range writers {
		err = errors.Join(err, <-ended)
	}
	return float64(n<<20) / 1e6 / took.Seconds(), err
}
