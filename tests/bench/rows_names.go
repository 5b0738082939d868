package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// nameRows are what is done with very many names in one directory: how long each step
// takes, how long the slowest create in another directory took meanwhile, and the
// daemon's memory.
func nameRows() (all []row) {
	for _, n := range []int{20_000, 200_000, 2_000_000} {
		all = append(all, row{name: fmt.Sprintf("names-%d", n), what: fmt.Sprintf("%d names in one directory", n), unit: "ms, MiB",
			alone: manyNames(n), series: "names", x: float64(n), reach: "≤ 50 ms for a create beside it, ≤ 400 MiB"})
	}
	return all
}

func manyNames(n int) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) (all []result, err error) {
			n := b.n(n)
			dir := filepath.Join(h.root(), "names")
			fork := filepath.Join(h.root(), ".forks", "beside") // where others work
			if err := unix.Mkdir(fork, 0o755); err != nil {
				return nil, err
			}
			for _, s := range []step{
				{"made", func() error { return makeNames(dir, n) }},
				{"listed", func() error { _, err := os.ReadDir(dir); return err }},
				{"captured", func() error { return h.capture("v") }},
				{"looked at", func() error { return command("find", dir, "-size", "+1G") }},
				{"restored away", func() error { return h.restore("origin") }},
				{"restored back", func() error { return h.restore("v") }},
				{"removed", func() error { return command("rm", "-r", dir) }},
			} {
				var took []result
				if err := h.newPeak(); err != nil {
					return nil, err
				}
				slowest, err := slowestWhile(fork, func() (err error) { took, err = timeAll(s); return err })
				if err != nil {
					return nil, err
				}
				all = append(all, took...)
				peak, err := h.peak()
				if err != nil {
					return nil, err
				}
				all = append(all, result{Place: "slowest create", Median: slowest, All: []float64{slowest}},
					result{Place: "peak, MiB", Median: peak, All: []float64{peak}})
			}
			return all, nil
		})
	}
}

// makeNames makes a directory of n empty files.
func makeNames(dir string, n int) error {
	err := unix.Mkdir(dir, 0o755)
	for i := 0; i < n && err == nil; i++ {
		err = unix.Mknod(filepath.Join(dir, fmt.Sprintf("f%07d", i)), unix.S_IFREG|0o644, 0)
	}
	return err
}

// newPeak lets peak begin anew (proc_pid_clear_refs(5)).
func (h *amberHistory) newPeak() error {
	pid, err := h.pid()
	if err != nil {
		return err
	}
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0)
}

// peak is the most memory that the daemon has had since newPeak, in MiB.
func (h *amberHistory) peak() (float64, error) {
	pid, err := h.pid()
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("the kernel does not tell how much memory the daemon has had")
}
