package main

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// lockRows are how long a write in main waits at most while a fork does what is
// most to do, a snapshot, a list of what changed, a restore and an undo, and while
// much comes into main itself.
var lockRows = []row{
	{name: "fork-lock-deep", what: "slowest create in main while a fork of 5000 nested directories is restored", unit: "ms",
		where: onlyAmber, named: true, run: forkLock(nested(5000)), reach: "≤ 50 ms"},
	{name: "fork-lock-many", what: "the same with 100000 changed files", unit: "ms",
		where: onlyAmber, named: true, run: forkLock(manyFiles(100_000)), reach: "≤ 50 ms"},
	{name: "fork-lock-links", what: "the same with 65000 links of one inode", unit: "ms",
		where: onlyAmber, named: true, run: forkLock(manyLinks(65_000)), reach: "≤ 50 ms"},
	{name: "import-lock", what: "the same while 60000 files are imported into main", unit: "ms",
		where: onlyAmber, named: true, run: importLock, reach: "≤ 50 ms"},
}

func importLock(w *work) (f float64, err error) {
	h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "import-lock"))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	w.look(h)
	return slowestWhile(h.root(), func() error { return h.load(w.n(60_000), pathOf) })
}

func forkLock(fill func(w *work, dir string) error) func(*work) (float64, error) {
	return func(w *work) (f float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, "fork-lock"))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		w.look(h)
		fork := filepath.Join(h.root(), ".forks", "f")
		if err := unix.Mkdir(fork, 0o755); err != nil {
			return 0, err
		}
		if err := fill(w, fork); err != nil {
			return 0, err
		}
		return slowestWhile(h.root(), func() error { return thereAndBack(fork) })
	}
}

// thereAndBack is what a fork does to the shared lock.
func thereAndBack(fork string) error {
	control := func(name string) string { return filepath.Join(fork, ".snapshots", name) }
	if err := unix.Mkdir(control("v"), 0o755); err != nil {
		return err
	}
	// What is too long for a file is refused, and has been worked out as well.
	if _, err := os.ReadFile(control("stat@base")); err != nil && !errors.Is(err, unix.EFBIG) {
		return err
	}
	return errors.Join(
		unix.Rename(control("restore"), control("restore@base")),
		unix.Rename(control("restore"), control("restore@undo")))
}

// slowestWhile creates a file every two milliseconds while do goes on, and
// returns how many ms the slowest took.
func slowestWhile(dir string, do func() error) (float64, error) {
	var slowest time.Duration
	stop := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return nil
			case <-time.After(2 * time.Millisecond):
			}
			start := time.Now()
			if err := createOne(name(dir, i%1000)); err != nil {
				return err
			}
			slowest = max(slowest, time.Since(start))
		}
	})
	err := do()
	close(stop)
	return ms(slowest), errors.Join(err, g.Wait())
}

// nested makes directories, each in the one before.
func nested(n int) func(*work, string) error {
	return func(w *work, dir string) error {
		fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		for range w.n(n) {
			if err != nil {
				return err
			}
			if err = unix.Mkdirat(fd, "d", 0o755); err != nil {
				break
			}
			above := fd
			fd, err = unix.Openat(above, "d", unix.O_RDONLY|unix.O_DIRECTORY, 0)
			unix.Close(above)
		}
		return errors.Join(err, unix.Close(fd))
	}
}

func manyFiles(n int) func(*work, string) error {
	return func(w *work, dir string) error { return populate(w.b, dir, w.n(n)) }
}

// manyLinks gives one file so many names.
func manyLinks(n int) func(*work, string) error {
	return func(w *work, dir string) error {
		first := name(dir, 0)
		if err := createOne(first); err != nil {
			return err
		}
		return w.b.loop(w.n(n)-1, func(i int) error { return unix.Link(first, name(dir, i+1)) })
	}
}
