package main

import (
	"fmt"
	"os"
)

// restoreRows are restores that everything is different in: how long one takes until it
// is answered, the daemon's processor time for it, and by how much the most memory that
// the daemon had meanwhile is above what it had before.
var restoreRows = []row{
	{name: "restore-all-100k", what: "restore that removes 100,000 files, and one that brings them back", unit: "ms, s, bytes a file",
		alone: restoreAll(100_000), reach: "≤ 1,000 ms, ≤ 0.6 s, ≤ 400 bytes"},
	{name: "restore-differ-100k", what: "restore between two snapshots in which 100,000 files differ, there and back", unit: "ms, s, bytes a file",
		alone: restoreDiffer(100_000), reach: "≤ 1,000 ms, ≤ 0.6 s, ≤ 400 bytes"},
}

func restoreAll(n int) func(*bench) ([]result, error) {
	return restores(n, func(h *amberHistory, n int) (there, back string, err error) {
		if err := h.load(n, pathOf); err != nil {
			return "", "", err
		}
		return "origin", "v", h.run("snapshot", "v")
	})
}

func restoreDiffer(n int) func(*bench) ([]result, error) {
	return restores(n, func(h *amberHistory, n int) (there, back string, err error) {
		for i, v := range []string{"v1", "v2"} {
			if err := h.loadAs(n, pathOf, func(f int) []byte { return fmt.Appendf(nil, "state %d of file %d\n", i, f) }); err != nil {
				return "", "", err
			}
			if err := h.run("snapshot", v); err != nil {
				return "", "", err
			}
		}
		return "v1", "v2", nil
	})
}

// restores goes to and fro between two snapshots that fill makes.
func restores(n int, fill func(h *amberHistory, n int) (there, back string, err error)) func(*bench) ([]result, error) {
	return func(b *bench) ([]result, error) {
		return b.alone(func(h *amberHistory) (all []result, err error) {
			n := b.n(n)
			there, back, err := fill(h, n)
			if err != nil {
				return nil, err
			}
			for _, way := range []string{"there", "back"} {
				all = append(all, result{Place: way}, result{Place: way + ", CPU"}, result{Place: way + ", memory"})
			}
			for range 2 * b.repeat {
				for i, name := range []string{there, back} {
					figures, err := h.costlyRestore(name, n)
					if err != nil {
						return nil, err
					}
					for j, f := range figures {
						r := &all[len(figures)*i+j]
						r.All = append(r.All, f)
						r.Median = median(r.All)
					}
				}
			}
			return all, nil
		})
	}
}

// costlyRestore restores a snapshot from which n files differ, and returns ms until the
// answer, seconds of the daemon's processor time and bytes of its memory a file.
func (h *amberHistory) costlyRestore(name string, n int) (figures [3]float64, err error) {
	before, err := h.place.counters()
	if err != nil {
		return figures, err
	}
	pid, err := h.pid()
	if err != nil {
		return figures, err
	}
	const forgetPeak = "5" // proc(5)
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte(forgetPeak), 0); err != nil {
		return figures, err
	}
	r, err := took("", func() error { return h.restore(name) })
	if err != nil {
		return figures, err
	}
	peak, err := h.peak()
	if err != nil {
		return figures, err
	}
	after, err := h.place.counters()
	const cpu, memory = "process_cpu_seconds_total", "process_resident_memory_bytes"
	return [3]float64{r.Median, after[cpu] - before[cpu], (peak*(1<<20) - before[memory]) / float64(n)}, err
}
