package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// coldRows are reads that neither the kernel nor the daemon has anything of:
// sealed, mounted again, the page cache dropped.
var coldRows = []row{
	{name: "cold-seq", what: "read a file of 128 MiB, cold", unit: "MB/s", where: keepsCold, reach: "≥ 1 GB/s", how: coldHow("read(1 MiB) to the end"),
		run: cold(largeFile, func(w *work, dir string) (float64, error) {
			took, err := w.timed(1, func() error { return drain(filepath.Join(dir, "large")) })
			return float64(w.largeSize()) / 1e6 / took.Seconds(), err
		})},
	{name: "cold-tree", what: "tar c of the sources of Go's commands, cold", unit: "s", where: keepsCold, reach: "≤ 1.2 × plain", how: coldHow("tar -C TREE -cf - . | cat >/dev/null"),
		run: cold(largeTree, func(w *work, dir string) (float64, error) {
			took, err := w.timed(w.b.files("cmd"), func() error { return command("sh", "-c", `tar -C "$1" -cf - . | cat >/dev/null`, "sh", dir) })
			return took.Seconds(), err
		})},
}

// keepsCold is where something that was kept can be mounted again and read, or
// is the plain directory.
func keepsCold(p place) bool {
	return p.kind == amber || p.kind == plain || p.kind == archive || p.name == "fuse-overlayfs"
}

// coldHow is how a place keeps what is read, and the reading.
func coldHow(reading string) func(place) string {
	return func(p place) string {
		keep := ""
		switch p.name {
		case "amberfs":
			keep = "amberfs snapshot; umount; mount; "
		case "restic":
			keep = "restic backup --no-cache; restic mount --no-cache; "
		case "borg":
			keep = "borg create -C zstd; borg mount; "
		}
		return keep + "sync; echo 3 >drop_caches; " + reading
	}
}

// dropCaches writes what is to be written, and then has the kernel forget: "2" names and
// attributes, "3" pages too.
func dropCaches(what string) error {
	unix.Sync()
	if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte(what), 0); err != nil {
		return &leftOut{err.Error()}
	}
	return nil
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
		if err := dropCaches("3"); err != nil {
			return 0, err
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

func (w *work) largeSize() int { return w.n(128) << 20 }

// largeFile is bytes that compress by half, as those of programs do.
func largeFile(w *work, dir string) error {
	data := noise(w.largeSize())
	for i := 1; i < len(data); i += 2 {
		data[i] = 0
	}
	return os.WriteFile(filepath.Join(dir, "large"), data, 0o644)
}

func largeTree(w *work, dir string) error {
	tarball, err := w.b.tarball("cmd")
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
