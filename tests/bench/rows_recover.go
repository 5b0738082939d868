package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A doing is some work in a workspace; round makes its names different.
type doing func(h *amberHistory, round int) error

// recoverRows are how long a store takes to be mounted again after its daemon was
// killed in the midst of work, and to be unmounted in the midst of it.
func recoverRows() (all []row) {
	add := func(name, what string, alone func(*bench) ([]result, error)) {
		all = append(all, row{name: "recover-" + name, what: "mount after a kill, " + what, unit: "ms", reach: "≤ 1 s", alone: alone})
	}
	size := func(name, along, what string, n int, prepare, work doing) {
		add(fmt.Sprintf("%s-%d", name, n), fmt.Sprintf("%d %s", n, what), recovered(prepare, work))
		r := &all[len(all)-1]
		r.series, r.x = "recovery by "+along, float64(n)
	}
	for _, n := range []int{10_000, 100_000} {
		size("files", "files", "files just made", n, nil, madeFiles(n))
	}
	// A checkpoint comes before the journal has more than that to replay.
	size("files", "files", "files, a tenth of them just made", 1_000_000,
		func(h *amberHistory, _ int) error { return h.load(h.b.n(900_000), pathOf) }, madeFiles(100_000))
	for _, n := range []int{1, 1000, 10_000} {
		size("snapshots", "snapshots", "snapshots of 10000 files just made", n, loadTenThousand, func(h *amberHistory, round int) error {
			return h.b.loop(h.b.n(n), func(i int) error {
				return errors.Join(os.WriteFile(filepath.Join(h.root(), pathOf(i)), contentOf(-i), 0o644), h.capture(fmt.Sprintf("s%d-%d", round, i)))
			})
		})
	}
	for _, n := range []int{1, 500, 5000} {
		size("forks", "forks", "forks of 10000 files just made and written to", n, loadTenThousand, makeForks(n))
	}
	for _, n := range []int{128, 512, 2048} {
		size("large", "MiB", "MiB just written", n, nil, func(h *amberHistory, round int) error {
			return writeMiB(h, filepath.Join(h.root(), fmt.Sprint("large", round)), h.b.n(n))
		})
	}
	add("gc", "in the midst of a gc that removes half of 200000 files", killedAmid(garbage(200_000), func(h *amberHistory, _ int) error { return h.run("gc") }))
	add("restore", "in the midst of restores of 100000 files there and back", killedAmid(emptied(100_000), thereAndBackAgain))
	add("import", "in the midst of an import of 200000 files", killedAmid(nil, func(h *amberHistory, _ int) error { return h.load(h.b.n(200_000), pathOf) }))
	add("forking", "in the midst of 1000 forks of 10000 files being made", killedAmid(loadTenThousand, makeForks(1000)))
	return all
}

func loadTenThousand(h *amberHistory, _ int) error { return h.load(h.b.n(10_000), pathOf) }

// madeFiles makes files one by one.
func madeFiles(n int) doing {
	return func(h *amberHistory, round int) error {
		dir := filepath.Join(h.root(), fmt.Sprint("round", round))
		return errors.Join(os.Mkdir(dir, 0o755), populateBy(h.b, dir, h.b.n(n), 4))
	}
}

// makeForks makes forks and writes to each.
func makeForks(n int) doing {
	return func(h *amberHistory, round int) error {
		return h.b.loop(h.b.n(n), func(i int) error {
			at := filepath.Join(h.root(), ".forks", fmt.Sprintf("f%d-%d", round, i))
			return errors.Join(unix.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, pathOf(0)), contentOf(i), 0o644))
		})
	}
}

// garbage makes files and snapshots with a half of them each, and removes the one.
func garbage(n int) doing {
	return func(h *amberHistory, round int) error {
		if err := h.load(h.b.n(n), pathOf); err != nil {
			return err
		}
		dirs, err := os.ReadDir(h.root())
		for i, d := range dirs {
			if i%2 == 0 {
				err = errors.Join(err, os.RemoveAll(filepath.Join(h.root(), d.Name())))
			}
		}
		return errors.Join(err, h.run("snapshot", fmt.Sprint("sealed", round)))
	}
}

// emptied captures files and removes them.
func emptied(n int) doing {
	return func(h *amberHistory, _ int) error {
		if err := h.load(h.b.n(n), pathOf); err != nil {
			return err
		}
		return errors.Join(h.capture("full"), h.restore("origin"))
	}
}

// thereAndBackAgain restores everything and nothing in turns.
func thereAndBackAgain(h *amberHistory, _ int) error {
	for range 100 {
		if err := errors.Join(h.restore("full"), h.restore("origin")); err != nil {
			return err
		}
	}
	return nil
}

func writeMiB(h *amberHistory, path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buf := noise(1 << 20)
	err = h.b.loop(n, func(i int) error {
		copy(buf, contentOf(i))
		_, err := f.Write(buf)
		return err
	})
	return errors.Join(err, f.Close())
}

// recovered does some work and kills the daemon, mounts again, does it once more and
// unmounts.
func recovered(prepare, work doing) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) ([]result, error) {
			if prepare != nil {
				if err := prepare(h, 0); err != nil {
					return nil, err
				}
			}
			if err := work(h, 1); err != nil {
				return nil, err
			}
			if err := h.kill(); err != nil {
				return nil, err
			}
			first, err := h.timeMount("mount after a kill")
			if err != nil {
				return nil, err
			}
			if err := work(h, 2); err != nil {
				return nil, err
			}
			rest, err := timeAll(step{"umount at once", h.place.close})
			if err != nil {
				return nil, err
			}
			last, err := h.timeMount("mount")
			return append(append(first, rest...), last...), err
		})
	}
}

// killedAmid kills the daemon while the work goes on, at four moments after its begin,
// each four times as late as the one before, and mounts again. The slowest mount counts.
func killedAmid(prepare, work doing) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) (all []result, err error) {
			if prepare != nil {
				if err := prepare(h, 0); err != nil {
					return nil, err
				}
			}
			for round, after := range []time.Duration{100 * time.Millisecond, 400 * time.Millisecond, 1600 * time.Millisecond, 6400 * time.Millisecond} {
				ended := make(chan struct{})
				go func() {
					_ = work(h, round) // it fails, if it was not done before
					close(ended)
				}()
				time.Sleep(after)
				if err := h.kill(); err != nil {
					return nil, err
				}
				<-ended
				these, err := h.timeMount("mount after a kill")
				if err != nil {
					return nil, err
				}
				if all == nil {
					all = these
					continue
				}
				for i, r := range these {
					all[i].All = append(all[i].All, r.Median)
					all[i].Median = max(all[i].Median, r.Median)
				}
			}
			rest, err := timeAll(step{"umount at once", h.place.close})
			if err != nil {
				return nil, err
			}
			last, err := h.timeMount("mount")
			return append(append(all, rest...), last...), err
		})
	}
}

// timeMount mounts the store and also tells what processor time the daemon took for
// it: other programs cannot make that more.
func (h *amberHistory) timeMount(what string) ([]result, error) {
	r, err := took(what, func() error { return h.b.mount(&h.place, h.store) })
	if err != nil {
		return nil, err
	}
	c, err := h.place.counters()
	f := c["process_cpu_seconds_total"] * 1e3
	return []result{r, {Place: what + ", CPU", Median: f, All: []float64{f}}}, err
}

// pid is the process that has the store.
func (h *amberHistory) pid() (int, error) {
	text, err := os.ReadFile(filepath.Join(h.store, "lock"))
	if err != nil {
		return 0, err
	}
	var holder struct{ PID int }
	if err := json.Unmarshal(text, &holder); err != nil {
		return 0, fmt.Errorf("the lock of the store: %w", err)
	}
	return holder.PID, nil
}

// kill ends the daemon as a crash does and takes the dead mount away.
func (h *amberHistory) kill() error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		return err
	}
	if err := h.awaitUnlocked(); err != nil {
		return err
	}
	if err := unix.Unmount(h.root(), unix.MNT_DETACH); err != nil {
		return command("fusermount3", "-u", "-z", h.root())
	}
	return nil
}

// awaitUnlocked returns when no process has the store.
func (h *amberHistory) awaitUnlocked() error {
	f, err := os.Open(filepath.Join(h.store, "lock"))
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX)
}
