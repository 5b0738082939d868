package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// besideRows are what programs take from each other.
var besideRows = []row{
	{name: "beside", what: "write in main, 16 programs in a fork ask for diffs, 90th percentile", unit: "ms", where: onlyAmber, reach: "≤ 50 ms", run: besideDiffs, how: same("500 × open(O_CREAT|O_TRUNC), write(1), close every 5 ms")},
	{name: "beside-restore", what: "write in main, a fork of 10,000 files is restored, longest", unit: "ms", where: onlyAmber, reach: "≤ 50 ms", run: besideRestore, how: same("open(O_CREAT|O_TRUNC), write(1), close every ms")},
	{name: "beside-writer", what: "append a line to a log that another program appends to", unit: "µs", where: onlyAmber, reach: "≤ 1.2 × one program", run: besideWriter, how: same("2 sessions with 5,000 × write(24) of sh each")},
}

// writes writes a file in a directory at an even pace, n times or until done is closed, and
// returns how many milliseconds each write took.
func (w *work) writes(dir string, n int, pace time.Duration, done <-chan struct{}) (took []float64, err error) {
	for i := 0; i < n && w.b.ctx.Err() == nil; i++ {
		select {
		case <-done:
			return took, nil
		case <-time.After(pace):
		}
		start := time.Now()
		if err := os.WriteFile(filepath.Join(dir, "written"), []byte("x"), 0o644); err != nil {
			return nil, err
		}
		took = append(took, ms(time.Since(start)))
	}
	return took, w.b.ctx.Err()
}

// ownStore runs a row in the main workspace of a store of its own, which has a fork.
func (w *work) ownStore(do func(h *amberHistory, fork string) (float64, error)) (f float64, err error) {
	h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("beside-%d", w.b.serial)))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	w.place.metrics = "" // they are another daemon's
	fork := filepath.Join(h.root(), ".forks", "f")
	if err := os.Mkdir(fork, 0o755); err != nil {
		return 0, err
	}
	return do(h, fork)
}

func besideDiffs(w *work) (float64, error) {
	return w.ownStore(func(h *amberHistory, fork string) (float64, error) {
		for i := range 20 {
			if err := errors.Join(os.WriteFile(filepath.Join(fork, "big"), noise(1<<20), 0o644),
				unix.Mkdir(filepath.Join(fork, ".snapshots", fmt.Sprint("s", i)), 0o755)); err != nil {
				return 0, err
			}
		}
		stop := make(chan struct{})
		var programs sync.WaitGroup
		for n := range 16 {
			programs.Go(func() {
				for i := n; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					// They fail where the fork has too much at once.
					_, _ = os.ReadFile(filepath.Join(fork, ".snapshots", fmt.Sprintf("diff@s%d", i%20)))
					_ = os.WriteFile(filepath.Join(fork, "big"), noise(1<<18), 0o644)
				}
			})
		}
		took, err := w.writes(h.root(), w.n(500), 5*time.Millisecond, nil)
		close(stop)
		programs.Wait()
		w.also("longest", "ms", quantile(took, 1))
		return quantile(took, 0.9), err
	})
}

func besideRestore(w *work) (float64, error) {
	return w.ownStore(func(h *amberHistory, fork string) (float64, error) {
		if err := unix.Mkdir(filepath.Join(fork, ".snapshots", "empty"), 0o755); err != nil {
			return 0, err
		}
		for i := range w.n(10_000) {
			if err := os.WriteFile(name(fork, i), nil, 0o644); err != nil {
				return 0, err
			}
		}
		done := make(chan struct{})
		var failed error
		go func() {
			defer close(done)
			failed = os.WriteFile(filepath.Join(fork, ".snapshots", "restore"), []byte("empty\n"), 0o644)
		}()
		took, err := w.writes(h.root(), 1<<30, time.Millisecond, done)
		<-done
		return quantile(took, 1), errors.Join(failed, err)
	})
}

func besideWriter(w *work) (float64, error) {
	n := w.n(5000)
	write := func(file string, programs int) (float64, error) {
		errs := make(chan error, programs)
		start := time.Now()
		for range programs {
			cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt $1 ]; do echo "a line of a log as usual" >&3; i=$((i+1)); done 3>>"$2"`, "sh", fmt.Sprint(n), file)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // another actor
			go func() { errs <- cmd.Run() }()
		}
		var err error
		for range programs {
			err = errors.Join(err, <-errs)
		}
		return float64(time.Since(start).Microseconds()) / float64(n*programs), err
	}
	one, err := write(filepath.Join(w.dir, "one"), 1)
	if err != nil {
		return 0, err
	}
	w.also("one program", "µs", one)
	return write(filepath.Join(w.dir, "two"), 2)
}
