package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// populate makes a tree of n small files, a hundred in a directory.
func populate(dir string, n int) error {
	for i := range n {
		sub := filepath.Join(dir, fmt.Sprintf("d%04d", i/100))
		if i%100 == 0 {
			if err := os.Mkdir(sub, 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(name(sub, i), fmt.Appendf(nil, "file %d\n", i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A history captures the state of a tree and brings it back, as each kind of
// place does it. The tree is the whole workspace, subvolume or worktree.
type history interface {
	root() string
	capture(name string) error
	restore(name string) error
	close() error
}

func openHistory(w work) (history, error) {
	switch w.place.kind {
	case amber:
		return newAmberHistory(w)
	case btrfs:
		h := &btrfsHistory{dir: w.dir}
		return h, command("btrfs", "subvolume", "create", h.root())
	default:
		h := &gitHistory{dir: w.dir}
		return h, commandIn(w.dir, nil, "git", "init", "-q")
	}
}

// amberHistory has a store of its own, so that the tree is the workspace.
type amberHistory struct{ bin, dir, store string }

func newAmberHistory(w work) (*amberHistory, error) {
	h := &amberHistory{bin: w.b.bin, dir: filepath.Join(w.b.base, "history"), store: filepath.Join(w.b.base, "history.store")}
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		return nil, err
	}
	return h, command(h.bin, "mount", h.store, h.dir)
}

func (h *amberHistory) root() string { return h.dir }

func (h *amberHistory) capture(name string) error {
	return unix.Mkdir(filepath.Join(h.dir, ".snapshots", name), 0o755)
}

func (h *amberHistory) restore(name string) error {
	lever := filepath.Join(h.dir, ".snapshots", "restore")
	return unix.Rename(lever, lever+"@"+name)
}

func (h *amberHistory) close() error {
	return errors.Join(command(h.bin, "umount", h.dir), os.RemoveAll(h.store), os.Remove(h.dir))
}

// gitHistory is the recipe of agent tools: a temporary index, write-tree,
// commit-tree, update-ref; and read-tree, checkout-index and the removal of
// what came later to go back.
type gitHistory struct{ dir string }

func (h *gitHistory) root() string { return h.dir }

func (h *gitHistory) sh(script string, args ...string) error {
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(h.dir, ".git", "snapshot-index"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}
	return commandIn(h.dir, env, "sh", append([]string{"-ec", script, "sh"}, args...)...)
}

func (h *gitHistory) capture(name string) error {
	return h.sh(`git add --all; tree=$(git write-tree); git update-ref "refs/snapshots/$1" $(git commit-tree -m "$1" "$tree")`, name)
}

func (h *gitHistory) restore(name string) error {
	return h.sh(`git read-tree "refs/snapshots/$1"; git checkout-index -a -f; git clean -fdq`, name)
}

func (h *gitHistory) close() error { return nil }

type btrfsHistory struct{ dir string }

func (h *btrfsHistory) root() string { return filepath.Join(h.dir, "tree") }

func (h *btrfsHistory) capture(name string) error {
	return command("btrfs", "subvolume", "snapshot", "-r", h.root(), filepath.Join(h.dir, name))
}

func (h *btrfsHistory) restore(name string) error {
	if err := command("btrfs", "subvolume", "delete", h.root()); err != nil {
		return err
	}
	return command("btrfs", "subvolume", "snapshot", filepath.Join(h.dir, name), h.root())
}

func (h *btrfsHistory) close() error {
	subvolumes, err := os.ReadDir(h.dir)
	for _, s := range subvolumes {
		err = errors.Join(err, command("btrfs", "subvolume", "delete", filepath.Join(h.dir, s.Name())))
	}
	return err
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// capture is the median of some captures with ten files changed between them.
func capture(n int) func(work) (float64, error) {
	return withHistory(n, func(h history, change func(i int) error) (float64, error) {
		var all []float64
		for i := range 9 {
			if err := change(i); err != nil {
				return 0, err
			}
			start := time.Now()
			if err := h.capture(fmt.Sprintf("v%d", i)); err != nil {
				return 0, err
			}
			all = append(all, ms(time.Since(start)))
		}
		// The first has all the tree to take in, where that is a cost.
		return median(all[1:]), nil
	})
}

func restore(n int) func(work) (float64, error) {
	return withHistory(n, func(h history, change func(i int) error) (float64, error) {
		if err := h.capture("v"); err != nil {
			return 0, err
		}
		var all []float64
		for i := range 3 {
			if err := change(i); err != nil {
				return 0, err
			}
			start := time.Now()
			if err := h.restore("v"); err != nil {
				return 0, err
			}
			all = append(all, ms(time.Since(start)))
		}
		return median(all), nil
	})
}

func withHistory(n int, measure func(h history, change func(i int) error) (float64, error)) func(work) (float64, error) {
	return func(w work) (f float64, err error) {
		h, err := openHistory(w)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		n := w.n(n)
		if err := populate(h.root(), n); err != nil {
			return 0, err
		}
		change := func(i int) error {
			for j := range 10 {
				at := (i*7919 + j*n/10) % n
				path := name(filepath.Join(h.root(), fmt.Sprintf("d%04d", at/100)), at)
				if err := os.WriteFile(path, fmt.Appendf(nil, "changed %d\n", i), 0o644); err != nil {
					return err
				}
			}
			return nil
		}
		return measure(h, change)
	}
}

func fork(n int) func(work) (float64, error) {
	return func(w work) (f float64, err error) {
		h, err := newAmberHistory(w)
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, h.close()) }()
		if err := populate(h.root(), w.n(n)); err != nil {
			return 0, err
		}
		var all []float64
		for i := range 20 {
			start := time.Now()
			if err := unix.Mkdir(filepath.Join(h.dir, ".forks", fmt.Sprintf("f%d", i)), 0o755); err != nil {
				return 0, err
			}
			all = append(all, ms(time.Since(start)))
		}
		return median(all), nil
	}
}

// seal is from the capture until the snapshot has its id.
func seal(w work) (f float64, err error) {
	h, err := newAmberHistory(w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	n, buf := w.n(512), noise(1<<20)
	for i := range n {
		buf[0], buf[1] = byte(i), byte(i>>8)
		for j := 0; j < len(buf); j += 4096 {
			buf[j+2] = byte(i + j)
		}
		if err := os.WriteFile(name(h.dir, i), buf, 0o644); err != nil {
			return 0, err
		}
	}
	start := time.Now()
	if err := command(h.bin, "-C", h.dir, "snapshot", "v"); err != nil {
		return 0, err
	}
	return float64(n) * float64(len(buf)) / 1e6 / time.Since(start).Seconds(), nil
}

// spaceOfUnchanged is what each of a hundred snapshots of the same tree adds.
func spaceOfUnchanged(w work) (f float64, err error) {
	h, err := newAmberHistory(w)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := populate(h.dir, w.n(10_000)); err != nil {
		return 0, err
	}
	if err := command(h.bin, "-C", h.dir, "snapshot", "v"); err != nil {
		return 0, err
	}
	before, err := stored(h)
	if err != nil {
		return 0, err
	}
	for i := range 100 {
		if err := command(h.bin, "-C", h.dir, "snapshot", fmt.Sprintf("v%d", i)); err != nil {
			return 0, err
		}
	}
	after, err := stored(h)
	return (after - before) / 100, err
}

// stored is the disk that packs and their index take: what is there after the
// journal has been emptied by a clean end.
func stored(h *amberHistory) (total float64, err error) {
	if err := command(h.bin, "umount", h.dir); err != nil {
		return 0, err
	}
	for _, dir := range []string{"packs", "index"} {
		entries, err := os.ReadDir(filepath.Join(h.store, dir))
		if err != nil {
			return 0, err
		}
		for _, e := range entries {
			var st unix.Stat_t
			if err := unix.Lstat(filepath.Join(h.store, dir, e.Name()), &st); err != nil {
				return 0, err
			}
			total += float64(st.Blocks * 512)
		}
	}
	return total, command(h.bin, "mount", h.store, h.dir)
}
