package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func untar(w *work) (float64, error) {
	tarball, err := w.b.tarball()
	if err != nil {
		return 0, err
	}
	files, err := w.b.files()
	if err != nil {
		return 0, err
	}
	return w.seconds(files, "tar", "xf", tarball)
}

func clone(w *work) (float64, error) {
	repo, err := w.b.repository()
	if err != nil {
		return 0, err
	}
	files, err := w.b.input("clone", func(path string) error {
		return command("git", "clone", "-q", "--no-hardlinks", repo, path)
	})
	if err != nil {
		return 0, err
	}
	n, err := countFiles(files)
	if err != nil {
		return 0, err
	}
	return w.seconds(n, "git", "clone", "-q", "--no-hardlinks", repo, "clone")
}

func npmInstall(w *work) (float64, error) {
	from, err := w.b.npm("npm", "")
	if err != nil {
		return 0, err
	}
	files, err := countFiles(filepath.Join(from, "node_modules"))
	if err != nil {
		return 0, err
	}
	if err := w.command("cp", from+"/package.json", from+"/package-lock.json", "."); err != nil {
		return 0, err
	}
	took, err := w.timed(files, func() error {
		return commandIn(w.b.ctx, w.dir, npmEnv, "npm", npmArgs("ci", filepath.Join(w.b.base, "npm-cache"), "--offline")...)
	})
	return took.Seconds(), err
}

// warm times a command in an unpacked tree when all is cached: it runs it
// twice before. The figure is the median of some runs, in ms.
func warm(argv ...string) func(*work) (float64, error) {
	return func(w *work) (float64, error) {
		if _, err := w.unpack(); err != nil {
			return 0, err
		}
		// A program that searches in several threads may stop in a file at
		// another place each time.
		if err := w.command("sh", "-c", "find . -type f -exec cat {} + >/dev/null"); err != nil {
			return 0, err
		}
		return w.again(5, argv...)
	}
}

// again is the median time of a command, in ms, after two runs that do not
// count. What searches in vain ends with 1, as it should.
func (w *work) again(times int, argv ...string) (float64, error) {
	run := func() error {
		_ = w.command(argv...)
		return w.b.ctx.Err()
	}
	for range 2 {
		if err := run(); err != nil {
			return 0, err
		}
	}
	var all []float64
	for range times {
		took, err := w.timed(1, run)
		if err != nil {
			return 0, err
		}
		all = append(all, ms(took))
	}
	return median(all), nil
}

// first times a command in a tree that was just unpacked, in ms.
func first(argv ...string) func(*work) (float64, error) {
	return func(w *work) (float64, error) {
		if _, err := exec.LookPath(argv[0]); err != nil {
			return 0, &leftOut{err.Error()}
		}
		files, err := w.unpack()
		if err != nil {
			return 0, err
		}
		took, err := w.timed(files, func() error {
			_ = w.command(argv...)
			return w.b.ctx.Err()
		})
		return ms(took), err
	}
}

func gitStatus(w *work) (float64, error) {
	if _, err := w.unpack(); err != nil {
		return 0, err
	}
	for _, argv := range [][]string{{"git", "init", "-q"}, {"git", "add", "--all"}} {
		if err := w.command(argv...); err != nil {
			return 0, err
		}
	}
	// Without its lock: what changes the index is no read.
	return w.again(5, "git", "--no-optional-locks", "status")
}

func copyTree(w *work) (float64, error) {
	files, err := w.unpack()
	if err != nil {
		return 0, err
	}
	return w.seconds(files, "cp", "-r", "src", "copy")
}

func removeTree(w *work) (float64, error) {
	files, err := w.unpack()
	if err != nil {
		return 0, err
	}
	return w.seconds(files, "rm", "-rf", "src")
}

// goCommand times a go command in a clone of this project, with everything in
// the caches: the second run counts.
func goCommand(args ...string) func(w *work) (float64, error) {
	return func(w *work) (float64, error) {
		repo, err := w.b.project()
		if err != nil {
			return 0, err
		}
		if err := w.command("git", "clone", "-q", repo, "src"); err != nil {
			return 0, err
		}
		cache, err := w.b.input("gocache", func(path string) error { return os.Mkdir(path, 0o755) })
		if err != nil {
			return 0, err
		}
		dir := filepath.Join(w.dir, "src")
		tmp := filepath.Join(w.dir, "tmp")
		if err := os.Mkdir(tmp, 0o755); err != nil {
			return 0, err
		}
		run := func() error {
			return commandIn(w.b.ctx, dir, []string{"GOCACHE=" + cache, "GOFLAGS=-buildvcs=false", "TMPDIR=" + tmp}, "go", args...)
		}
		if err := run(); err != nil {
			return 0, err
		}
		if err := os.RemoveAll(filepath.Join(dir, "amberfs.bin")); err != nil {
			return 0, err
		}
		took, err := w.timed(1, run)
		return took.Seconds(), err
	}
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
