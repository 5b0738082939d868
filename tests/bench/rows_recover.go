package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// recoverRows are how long a store takes to be mounted again after its daemon was
// killed in the midst of work, and to be unmounted in the midst of it.
func recoverRows() (all []row) {
	add := func(name, what string, x int, prepare, work func(h *amberHistory, round int) error) {
		all = append(all, row{name: "recover-" + name, what: "mount after a kill, " + what, unit: "ms", reach: "≤ 1 s",
			alone: recovered(prepare, work), series: "recovery", x: float64(x)})
	}
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		add(fmt.Sprintf("files-%d", n), fmt.Sprintf("%d files just made", n), n, nil, func(h *amberHistory, round int) error {
			dir := filepath.Join(h.root(), fmt.Sprint("round", round))
			return errors.Join(os.Mkdir(dir, 0o755), populate(h.b, dir, h.b.n(n)))
		})
	}
	for _, n := range []int{1, 1000, 10_000} {
		add(fmt.Sprintf("snapshots-%d", n), fmt.Sprintf("%d snapshots of 10000 files just made", n), n, loadTenThousand, func(h *amberHistory, round int) error {
			return h.b.loop(h.b.n(n), func(i int) error {
				return errors.Join(os.WriteFile(filepath.Join(h.root(), pathOf(i)), contentOf(-i), 0o644), h.capture(fmt.Sprintf("s%d-%d", round, i)))
			})
		})
	}
	for _, n := range []int{1, 500, 5000} {
		add(fmt.Sprintf("forks-%d", n), fmt.Sprintf("%d forks of 10000 files just made and written to", n), n, loadTenThousand, func(h *amberHistory, round int) error {
			return h.b.loop(h.b.n(n), func(i int) error {
				at := filepath.Join(h.root(), ".forks", fmt.Sprintf("f%d-%d", round, i))
				return errors.Join(unix.Mkdir(at, 0o755), os.WriteFile(filepath.Join(at, pathOf(0)), contentOf(i), 0o644))
			})
		})
	}
	for _, mib := range []int{128, 512, 2048} {
		add(fmt.Sprintf("large-%d", mib), fmt.Sprintf("%d MiB just written", mib), mib, nil, func(h *amberHistory, round int) error {
			return writeMiB(h, filepath.Join(h.root(), fmt.Sprint("large", round)), h.b.n(mib))
		})
	}
	return all
}

func loadTenThousand(h *amberHistory, _ int) error { return h.load(h.b.n(10_000), pathOf) }

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
func recovered(prepare, work func(h *amberHistory, round int) error) func(*bench) ([]result, error) {
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
			mount := func() error { return h.b.mount(&h.place, h.store) }
			first, err := timeAll(step{"mount after a kill", mount})
			if err != nil {
				return nil, err
			}
			if err := work(h, 2); err != nil {
				return nil, err
			}
			rest, err := timeAll(step{"umount at once", h.place.close}, step{"mount", mount})
			return append(first, rest...), err
		})
	}
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
