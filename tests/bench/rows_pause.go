package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// pauseRows are how long a program waits for the next daemon, in a store of 100,000 files with a
// build under way: the time from the kill to the answer to an lstat of a name that the
// kernel does not know.
var pauseRows = []row{
	{name: "pause", what: "kill -9 of the daemon under a build, 100,000 files", unit: "ms", where: onlyAmber, named: true, alone: true, reach: "≤ 500 ms, the longest ≤ 2,000", run: pauses((*amberHistory).crash)},
	{name: "pause-upgrade", what: "upgrade of the daemon under a build, 100,000 files", unit: "ms", where: onlyAmber, named: true, alone: true, reach: "≤ 300 ms", run: pauses((*amberHistory).upgrade)},
}

const pauseCount = 50

// pauses replaces daemons, and returns the median of what programs waited.
func pauses(replace func(h *amberHistory, wait func() float64) (ms float64, err error)) func(*work) (float64, error) {
	return func(w *work) (ms float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("pause-%d", w.b.serial)))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		if err := h.load(w.n(100_000)); err != nil {
			return 0, err
		}
		w.place.metrics = "" // they are another daemon's
		ctx, stop := context.WithCancel(context.Background())
		built := make(chan error, 1)
		go func() { built <- h.build(ctx) }()
		var all []float64
		for i := range w.n(pauseCount) {
			wait := func() float64 {
				began := time.Now()
				_, _ = os.Lstat(filepath.Join(h.root(), fmt.Sprint("absent", i))) // there is no such file
				return time.Since(began).Seconds() * 1000
			}
			ms, rerr := replace(h, wait)
			if err = errors.Join(err, rerr); err != nil {
				break
			}
			all = append(all, ms)
		}
		stop()
		if err = errors.Join(err, <-built); err != nil {
			return 0, err
		}
		w.also("longest", "ms", quantile(all, 1))
		return median(all), nil
	}
}

// build compiles again and again, with its cache in the mount. An error of it is one that the
// compiler got from a file.
func (h *amberHistory) build(ctx context.Context) error {
	env := []string{"GOCACHE=" + filepath.Join(h.root(), "cache"), "GOTMPDIR=" + h.root(), "GOFLAGS=-mod=mod", "GOWORK=off"}
	for ctx.Err() == nil {
		if err := commandIn(ctx, h.root(), env, "go", "build", "-a", "strconv"); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

func (h *amberHistory) daemon() (pid int, err error) {
	text, err := exec.Command(h.b.bin, "-C", h.root(), "status", "--json").Output()
	if err != nil {
		return 0, err
	}
	var status struct{ PID int }
	return status.PID, json.Unmarshal(text, &status)
}

func (h *amberHistory) crash(wait func() float64) (float64, error) {
	pid, err := h.daemon()
	if err == nil {
		err = unix.Kill(pid, unix.SIGKILL)
	}
	return wait(), err
}

// upgrade returns how long the old and the new program together did not answer.
func (h *amberHistory) upgrade(func() float64) (float64, error) {
	text, err := exec.Command(h.b.bin, "-C", h.root(), "upgrade", h.b.bin, "--json").Output()
	if err != nil {
		return 0, err
	}
	var done struct {
		Pause float64 `json:"pause_seconds"`
	}
	return done.Pause * 1000, json.Unmarshal(text, &done)
}
