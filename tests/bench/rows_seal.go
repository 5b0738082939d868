package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// sealRows are what the work that goes on by itself costs, and whom it holds up.
var sealRows = []row{
	{name: "keep-cpu", what: "processor time for keeping a GB of a large tree", unit: "s", alone: keepCPU, ref: "restic"},
	{name: "create-beside", what: "99th percentile of a create, one a millisecond, beside a seal", unit: "ms", where: onlyAmber,
		run: createPaced(true), reach: "≤ 2 × create-undisturbed"},
	{name: "create-undisturbed", what: "the same when there is none", unit: "ms", where: onlyAmber, run: createPaced(false)},
}

// keepCPU is the processor time that a large tree takes until it is kept for good: the
// daemon's for seal, index and gc after the last file is written, or that of the backup.
func keepCPU(b *bench) ([]result, error) {
	src, err := b.tree()
	if err != nil {
		return nil, err
	}
	size, err := contentBytes(src)
	if err != nil {
		return nil, err
	}
	rows := map[string]func(repo, tree string) (float64, error){
		"amberfs": b.sealCPU,
		"restic": func(repo, tree string) (float64, error) {
			return backupCPU(b.ctx, tree, []string{"restic", "init", "-q", "-r", repo}, []string{"restic", "backup", "-q", "--no-cache", "-r", repo, "."})
		},
		"borg": func(repo, tree string) (float64, error) {
			return backupCPU(b.ctx, tree, []string{"borg", "init", "-e", "none", repo}, []string{"borg", "create", "-C", "zstd", repo + "::v", "."})
		},
	}
	var out []result
	for _, name := range []string{"amberfs", "restic", "borg"} {
		var all []float64
		for range b.repeat {
			repo := filepath.Join(b.base, "keep-cpu")
			f, err := rows[name](repo, src)
			err = errors.Join(err, os.RemoveAll(repo))
			if errors.Is(err, exec.ErrNotFound) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, f*1e9/size)
		}
		if len(all) > 0 {
			fmt.Fprintf(os.Stderr, "%-18s %-16s %.4g s\n", "keep-cpu", name, median(all))
			out = append(out, result{Place: name, Median: median(all), All: all})
		}
	}
	return out, nil
}

// sealCPU is the daemon's processor time after the tree was written.
func (b *bench) sealCPU(repo, tree string) (seconds float64, err error) {
	h, err := newAmberHistory(b, repo)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := command("cp", "-a", tree, h.root()); err != nil {
		return 0, err
	}
	before, err := h.place.counters()
	if err != nil {
		return 0, err
	}
	if err := errors.Join(h.run("snapshot", "v"), h.run("gc")); err != nil {
		return 0, err
	}
	after, err := h.place.counters()
	const cpu = "process_cpu_seconds_total"
	return after[cpu] - before[cpu], err
}

// backupCPU makes a repository and returns the processor time of one backup into it.
func backupCPU(ctx context.Context, tree string, init, backup []string) (float64, error) {
	if err := commandIn(ctx, "", archiveEnv, init[0], init[1:]...); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, backup[0], backup[1:]...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), archiveEnv...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%v: %w: %s", backup, err, out)
	}
	return (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), nil
}

func contentBytes(dir string) (sum float64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			sum += float64(info.Size())
		}
		return err
	})
	return sum, err
}

// createPaced creates a file each millisecond, as long as 1 GiB of new data is being
// sealed or for as many seconds, and returns the 99th percentile.
func createPaced(beside bool) func(w *work) (float64, error) {
	return func(w *work) (f float64, err error) {
		h, err := newAmberHistory(w.b, filepath.Join(w.b.base, fmt.Sprintf("paced-%d", w.b.serial)))
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		ended := make(chan error, 1)
		if beside {
			if err := newData(h.root(), w.n(1024)); err != nil {
				return 0, err
			}
			go func() { ended <- h.run("snapshot", "v") }()
		} else {
			time.AfterFunc(4*time.Second, func() { ended <- nil })
		}
		dir := filepath.Join(h.root(), "creates")
		if err := os.Mkdir(dir, 0o755); err != nil {
			return 0, err
		}
		var all []float64
		for {
			select {
			case err := <-ended:
				return quantile(all, 0.99), err
			case <-time.After(time.Millisecond):
			}
			start := time.Now()
			if err := createOne(name(dir, len(all)%1000)); err != nil {
				return 0, errors.Join(err, <-ended)
			}
			all = append(all, float64(time.Since(start).Microseconds())/1e3)
		}
	}
}

// newData writes n files of 1 MiB that have nothing in common and do not compress.
func newData(dir string, n int) error {
	buf := noise(1 << 20)
	for i := range n {
		buf[0], buf[1] = byte(i), byte(i>>8)
		for j := 0; j < len(buf); j += 4096 {
			buf[j+2], buf[j+3] = byte(i+j), byte(i>>4)
		}
		if err := os.WriteFile(name(dir, i), buf, 0o644); err != nil {
			return err
		}
	}
	return nil
}
