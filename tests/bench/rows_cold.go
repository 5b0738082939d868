package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// coldRows are reads that neither the kernel nor the daemon has anything of:
// sealed, mounted again, the page cache dropped.
var coldRows = []row{
	{name: "cold-seq", what: "read a file of 256 MiB, cold", unit: "MB/s", higher: true, where: keepsCold, reach: "≥ 1 GB/s",
		run: cold(largeFile, func(w *work, dir string) (float64, error) {
			took, err := w.timed(1, func() error { return drain(filepath.Join(dir, "large")) })
			return float64(w.largeSize()) / 1e6 / took.Seconds(), err
		})},
	{name: "cold-random", what: "read 4 KiB at 500 places of it, cold", unit: "µs", where: keepsCold,
		run: cold(largeFile, readAtRandom)},
	{name: "cold-tree", what: "tar c of a large tree, cold", unit: "s", where: keepsCold, reach: "≤ 1.0 × plain",
		run: cold(largeTree, func(w *work, dir string) (float64, error) {
			files, err := w.b.files()
			if err != nil {
				return 0, err
			}
			took, err := w.timed(files, func() error { return command("sh", "-c", `tar -C "$1" -cf - . | cat >/dev/null`, "sh", dir) })
			return took.Seconds(), err
		})},
}

// keepsCold is where something that was kept can be mounted again and read, or
// is the plain directory.
func keepsCold(p place) bool {
	return p.kind == amber || p.kind == plain || p.kind == archive || p.name == "fuse-overlayfs"
}

// cold is a row's work on what fill puts into a directory, read back cold.
func cold(fill func(w *work, dir string) error, do func(w *work, dir string) (float64, error)) func(*work) (float64, error) {
	return func(w *work) (f float64, err error) {
		if os.Getuid() != 0 {
			return 0, &leftOut{"only root can drop the page cache"}
		}
		dir, end, err := w.keepCold(fill)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, end()) }()
		unix.Sync()
		if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
			return 0, &leftOut{err.Error()}
		}
		return do(w, dir)
	}
}

// keepCold fills a directory, keeps it as the place keeps things, and returns
// where to read it.
func (w *work) keepCold(fill func(*work, string) error) (dir string, end func() error, err error) {
	switch w.place.kind {
	case amber:
		return w.coldMount(fill)
	case archive:
		if err := fill(w, w.dir); err != nil {
			return "", nil, err
		}
		return w.place.archive(w.b, w.dir, fmt.Sprintf("%s.%d", w.place.dir, w.b.serial))
	}
	return w.dir, func() error { return nil }, fill(w, w.dir)
}

// coldMount is a sealed snapshot, mounted again.
func (w *work) coldMount(fill func(*work, string) error) (dir string, end func() error, err error) {
	h, err := amberHistoryOf(w.b, w.place, filepath.Join(w.b.base, fmt.Sprintf("cold-%d", w.b.serial)))
	if err != nil {
		return "", nil, err
	}
	err = errors.Join(fill(w, h.root()), h.run("snapshot", "v"))
	if err == nil {
		_, err = h.reopen()
	}
	if err != nil {
		return "", nil, errors.Join(err, h.close())
	}
	w.look(h)
	return h.root(), h.close, nil
}

func (w *work) largeSize() int { return w.n(256) << 20 }

// largeFile is bytes that compress by half, as those of programs do.
func largeFile(w *work, dir string) error {
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		return err
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	buf := make([]byte, 1<<20)
	for range w.largeSize() >> 20 {
		for i := 0; i < len(buf); i += 2 {
			buf[i], buf[i+1] = byte(rnd.Uint32()), 0
		}
		if _, err := f.Write(buf); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return errors.Join(f.Sync(), f.Close())
}

func largeTree(w *work, dir string) error {
	tarball, err := w.b.tarball()
	if err != nil {
		return err
	}
	return commandIn(w.b.ctx, dir, nil, "tar", "xf", tarball)
}

// drain reads a file to its end.
func drain(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return err
}

func readAtRandom(w *work, dir string) (float64, error) {
	f, err := os.Open(filepath.Join(dir, "large"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// Else what is read ahead of one place is what another asks for.
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_RANDOM); err != nil {
		return 0, err
	}
	rnd, buf := rand.New(rand.NewPCG(3, 4)), make([]byte, 4096)
	return w.each(w.n(500), func(int) error {
		_, err := f.ReadAt(buf, rnd.Int64N(int64(w.largeSize()>>12))<<12)
		return err
	})
}

// openRestic and openBorg are places that keep a directory as a backup and
// mount it to be read.
func openRestic(b *bench, p *place) error {
	return openArchive(p, "restic", func(repo string) [][]string {
		return [][]string{{"restic", "init", "-q", "-r", repo}, {"restic", "backup", "-q", "--no-cache", "-r", repo, "."}}
	}, func(repo, at string) []string {
		return []string{"restic", "mount", "-q", "--no-cache", "-r", repo, at}
	},
		"snapshots/latest")
}

func openBorg(b *bench, p *place) error {
	return openArchive(p, "borg", func(repo string) [][]string {
		return [][]string{{"borg", "init", "-e", "none", repo}, {"borg", "create", "-C", "zstd", repo + "::v", "."}}
	}, func(repo, at string) []string { return []string{"borg", "mount", "-f", repo + "::v", at} }, "")
}

func openArchive(p *place, tool string, keep func(repo string) [][]string, mount func(repo, at string) []string, below string) error {
	if _, err := exec.LookPath(tool); err != nil {
		return err
	}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	p.archive = func(b *bench, dir, at string) (string, func() error, error) {
		repo := at + ".repo"
		for _, argv := range keep(repo) {
			if err := commandIn(b.ctx, dir, archiveEnv, argv[0], argv[1:]...); err != nil {
				return "", nil, err
			}
		}
		m := place{name: p.name, dir: at}
		argv := append(append([]string{"env"}, archiveEnv...), mount(repo, at)...)
		if err := openDaemon(&m, argv...); err != nil {
			return "", nil, err
		}
		end := func() error { return errors.Join(m.close(), os.RemoveAll(repo), os.Remove(at)) }
		read := filepath.Join(at, below)
		if err := waitFor(read); err != nil {
			return "", nil, errors.Join(err, end())
		}
		return read, end, nil
	}
	return nil
}

var archiveEnv = []string{"RESTIC_PASSWORD=bench", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes", "BORG_RELOCATED_REPO_ACCESS_IS_OK=yes"}

// waitFor waits until a mount shows what is in it.
func waitFor(path string) error {
	for range 500 {
		if entries, err := os.ReadDir(path); err == nil && len(entries) > 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("there is nothing at %s", path)
}
