package main

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// A history captures the state of a tree and brings it back, as each kind of
// place does it. The tree is the whole workspace, subvolume or worktree.
type history interface {
	root() string
	capture(name string) error
	restore(name string) error
	close() error
}

// openHistory makes an empty one: in a mount of its own at mount, or in the
// directory dir of another place.
func openHistory(b *bench, p place, mount, dir string) (history, error) {
	switch p.kind {
	case amber:
		return amberHistoryOf(b, p, mount)
	case btrfs:
		h := &btrfsHistory{dir: dir}
		return h, command("btrfs", "subvolume", "create", h.root())
	case reflink:
		h := &copyHistory{dir: dir}
		return h, os.Mkdir(h.root(), 0o755)
	default:
		h := &gitHistory{dir: dir}
		return h, command("git", "init", "-q", dir)
	}
}

// amberHistory has a store of its own, so that the tree is the workspace.
type amberHistory struct {
	b     *bench
	place place
	store string
}

func newAmberHistory(b *bench, dir string) (*amberHistory, error) {
	return amberHistoryOf(b, place{name: "amberfs"}, dir)
}

// amberHistoryOf makes one that is mounted as p is.
func amberHistoryOf(b *bench, p place, dir string) (*amberHistory, error) {
	h := &amberHistory{b: b, place: place{name: p.name, kind: amber, dir: dir}, store: dir + ".store"}
	return h, b.mount(&h.place, h.store)
}

func (h *amberHistory) root() string { return h.place.dir }

func (h *amberHistory) control(name string) string {
	return filepath.Join(h.root(), ".snapshots", name)
}

func (h *amberHistory) capture(name string) error { return unix.Mkdir(h.control(name), 0o755) }

func (h *amberHistory) restore(name string) error {
	return unix.Rename(h.control("restore"), h.control("restore@"+name))
}

func (h *amberHistory) run(args ...string) error {
	return command(h.b.bin, append([]string{"-C", h.root()}, args...)...)
}

// reopen unmounts and mounts again, and returns how long the second took.
func (h *amberHistory) reopen() (time.Duration, error) {
	if err := h.place.close(); err != nil {
		return 0, err
	}
	start := time.Now()
	err := h.b.mount(&h.place, h.store)
	return time.Since(start), err
}

func (h *amberHistory) close() error {
	return errors.Join(h.place.close(), os.RemoveAll(h.store), os.Remove(h.root()))
}

// gitHistory is the recipe of agent tools: a temporary index, write-tree,
// commit-tree, update-ref; and read-tree, checkout-index and the removal of
// what came later to go back.
type gitHistory struct{ dir string }

func (h *gitHistory) root() string { return h.dir }

func (h *gitHistory) sh(script string, args ...string) error {
	cmd := exec.Command("sh", append([]string{"-ec", script, "sh"}, args...)...)
	cmd.Dir = h.dir
	cmd.Env = append(os.Environ(), "GIT_INDEX_FILE="+filepath.Join(h.dir, ".git", "snapshot-index"),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
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

// copyHistory copies the whole tree, sharing the blocks of files.
type copyHistory struct{ dir string }

func (h *copyHistory) root() string { return filepath.Join(h.dir, "tree") }

func (h *copyHistory) copy(from, to string) error {
	return command("cp", "-a", "--reflink=auto", from, to)
}

func (h *copyHistory) capture(name string) error { return h.copy(h.root(), filepath.Join(h.dir, name)) }

func (h *copyHistory) restore(name string) error {
	if err := os.RemoveAll(h.root()); err != nil {
		return err
	}
	return h.copy(filepath.Join(h.dir, name), h.root())
}

func (h *copyHistory) close() error { return nil }

// The trees of rows of history have n small files, a hundred in a directory.
func pathOf(i int) string { return filepath.Join(fmt.Sprintf("d%05d", i/100), fmt.Sprintf("f%07d", i)) }

func contentOf(i int) []byte { return fmt.Appendf(nil, "file %d\n", i) }

// populate makes such a tree file by file.
func populate(b *bench, dir string, n int) error { return populateBy(b, dir, n, 1) }

// populateBy has several writers make it, each every so many directories.
func populateBy(b *bench, dir string, n, writers int) error {
	const inDir = 100
	var g errgroup.Group
	for k := range writers {
		g.Go(func() error {
			return b.loop(n, func(i int) error {
				if i/inDir%writers != k {
					return nil
				}
				path := filepath.Join(dir, pathOf(i))
				if i%inDir == 0 {
					if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
						return err
					}
				}
				return os.WriteFile(path, contentOf(i), 0o644)
			})
		})
	}
	return g.Wait()
}

// load brings such a tree in at once, or n files into one directory.
func (h *amberHistory) load(n int, path func(i int) string) error {
	return h.loadAs(n, path, contentOf)
}

// loadAs is load with other contents.
func (h *amberHistory) loadAs(n int, path func(i int) string, content func(i int) []byte) error {
	r, w := io.Pipe()
	cmd := exec.CommandContext(h.b.ctx, h.b.bin, "-C", h.root(), "import", "--tar", "-")
	cmd.Stdin = r
	go func() { w.CloseWithError(writeTar(w, n, path, content)) }()
	if out, err := cmd.CombinedOutput(); err != nil {
		r.Close()
		return fmt.Errorf("import: %w: %s", err, out)
	}
	return nil
}

func writeTar(to io.Writer, n int, path func(i int) string, content func(i int) []byte) error {
	buf := bufio.NewWriterSize(to, 1<<20)
	t := tar.NewWriter(buf)
	now := time.Now()
	for i := range n {
		data := content(i)
		h := &tar.Header{Name: path(i), Mode: 0o644, Size: int64(len(data)), ModTime: now, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), buf.Flush())
}
