package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A history captures the state of a tree and restores it, as users of each kind of place
// do: capture and restore run the command, captureCall and restoreCall make the calls of
// the kernel without one. The tree is the whole workspace, subvolume or worktree.
type history interface {
	root() string
	capture(name string) error
	restore(name string) error
	captureCall(name string) error
	restoreCall(name string) error
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
		return newGitHistory(dir)
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
	h := &amberHistory{b: b, place: place{name: p.name, kind: amber, dir: dir, options: p.options}, store: dir + ".store"}
	return h, b.mount(&h.place, h.store)
}

func (h *amberHistory) root() string { return h.place.dir }

func (h *amberHistory) control(name string) string {
	return filepath.Join(h.root(), ".snapshots", name)
}

func (h *amberHistory) capture(name string) error { return command("mkdir", h.control(name)) }

func (h *amberHistory) restore(name string) error {
	return command("mv", h.control("restore"), h.control("restore@"+name))
}

func (h *amberHistory) captureCall(name string) error { return unix.Mkdir(h.control(name), 0o755) }

func (h *amberHistory) restoreCall(name string) error {
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

// gitHistory is a repository beside the tree, as agent tools keep it, with an index and an
// untracked cache that stay warm.
type gitHistory struct{ dir string }

func newGitHistory(dir string) (*gitHistory, error) {
	h := &gitHistory{dir: dir}
	return h, errors.Join(os.Mkdir(h.root(), 0o755), h.sh(`git init -q; git config core.untrackedCache true; git config gc.auto 0; echo node_modules >"$GIT_DIR/info/exclude"`))
}

func (h *gitHistory) root() string { return filepath.Join(h.dir, "tree") }

func (h *gitHistory) sh(script string, args ...string) error {
	return commandIn(context.Background(), h.root(), []string{"GIT_DIR=" + filepath.Join(h.dir, "shadow.git"), "GIT_WORK_TREE=" + h.root(),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}, "sh", append([]string{"-ec", script, "sh"}, args...)...)
}

func (h *gitHistory) capture(name string) error {
	return h.sh(`git add --all; tree=$(git write-tree); git update-ref "refs/snapshots/$1" $(git commit-tree -m "$1" "$tree")`, name)
}

// restore removes what came later as well, so it adds that to the index first.
func (h *gitHistory) restore(name string) error {
	return h.sh(`git add --all; git read-tree -u --reset "refs/snapshots/$1"`, name)
}

func (h *gitHistory) captureCall(string) error { return errNoCall }
func (h *gitHistory) restoreCall(string) error { return errNoCall }
func (h *gitHistory) close() error             { return nil }

// errNoCall is of a place that only a command can take a snapshot in.
var errNoCall = errors.New("no call")

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

// The requests and flags of linux/btrfs.h.
const (
	btrfsSnapDestroy  = 0x5000940f // BTRFS_IOC_SNAP_DESTROY
	btrfsSnapCreateV2 = 0x50009417 // BTRFS_IOC_SNAP_CREATE_V2
	btrfsReadOnly     = 1 << 1     // BTRFS_SUBVOL_RDONLY
)

// snapshot makes one of a subvolume of the directory, beside it.
func (h *btrfsHistory) snapshot(of, name string, flags uint64) error {
	var args struct { // btrfs_ioctl_vol_args_v2
		fd, transid int64
		flags       uint64
		_           [4]uint64
		name        [4040]byte
	}
	src, err := os.Open(filepath.Join(h.dir, of))
	if err != nil {
		return err
	}
	defer src.Close()
	args.fd, args.flags = int64(src.Fd()), flags
	copy(args.name[:], name)
	return h.ioctl(btrfsSnapCreateV2, unsafe.Pointer(&args))
}

func (h *btrfsHistory) ioctl(request uintptr, args unsafe.Pointer) error {
	dir, err := os.Open(h.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), request, uintptr(args)); errno != 0 {
		return errno
	}
	return nil
}

func (h *btrfsHistory) captureCall(name string) error { return h.snapshot("tree", name, btrfsReadOnly) }

func (h *btrfsHistory) restoreCall(name string) error {
	var args struct { // btrfs_ioctl_vol_args
		_    int64
		name [4088]byte
	}
	copy(args.name[:], "tree")
	if err := h.ioctl(btrfsSnapDestroy, unsafe.Pointer(&args)); err != nil {
		return err
	}
	return h.snapshot(name, "tree", 0)
}

func (h *btrfsHistory) close() error { return nil }

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

func (h *copyHistory) captureCall(name string) error {
	return cloneTree(h.root(), filepath.Join(h.dir, name))
}

func (h *copyHistory) restoreCall(name string) error {
	return errors.Join(os.RemoveAll(h.root()), cloneTree(filepath.Join(h.dir, name), h.root()))
}

// cloneTree shares the blocks of each regular file by FICLONE.
func cloneTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := to + strings.TrimPrefix(path, from)
		if e.IsDir() {
			return os.Mkdir(at, 0o755)
		}
		src, err := os.Open(path)
		if err != nil {
			return err
		}
		defer src.Close()
		dst, err := os.Create(at)
		if err != nil {
			return err
		}
		return errors.Join(unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())), dst.Close())
	})
}

func (h *copyHistory) close() error { return nil }

// The trees of rows of history have n small files, a hundred in a directory.
func pathOf(i int) string { return filepath.Join(fmt.Sprintf("d%05d", i/100), fmt.Sprintf("f%07d", i)) }

func contentOf(i int) []byte { return fmt.Appendf(nil, "file %d\n", i) }

// populate makes such a tree file by file.
func populate(b *bench, dir string, n int) error {
	return b.loop(n, func(i int) error {
		path := filepath.Join(dir, pathOf(i))
		if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return os.WriteFile(path, contentOf(i), 0o644)
	})
}

// load imports such a tree.
func (h *amberHistory) load(n int) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(writeTar(w, n)) }()
	return h.importTar(r)
}

func (h *amberHistory) importTar(r io.ReadCloser) error {
	defer r.Close()
	cmd := exec.CommandContext(h.b.ctx, h.b.bin, "-C", h.root(), "import", "--tar", "-")
	cmd.Stdin = r
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import: %w: %s", err, out)
	}
	return nil
}

func writeTar(to io.Writer, n int) error {
	buf := bufio.NewWriterSize(to, 1<<20)
	t := tar.NewWriter(buf)
	now := time.Now()
	for i := range n {
		data := contentOf(i)
		h := &tar.Header{Name: pathOf(i), Mode: 0o644, Size: int64(len(data)), ModTime: now, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		if _, err := t.Write(data); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), buf.Flush())
}
