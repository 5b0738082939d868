package hostdir

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A host is an open directory of this machine. Its methods open no path outside of the directory, and follow no
// symbolic link.
type host struct {
	root int
	// dir is a descriptor of the directory below the root that was opened last, or -1. at is the path of this
	// directory.
	dir int
	at  string
	// temps is the prefix of temporary names. An apply to a directory above or below this one uses
	// another prefix.
	temps string
	// overlay is set if the directory is on overlayfs, see writer.copiedUp.
	overlay bool
	// alias maps the paths of new directories to their temporary names, until they are renamed to their final
	// names.
	alias  map[string]string
	path   string // of the directory, without symbolic links
	src    *tree.Source
	states []*tree.State         // versions of the directory in src, from which closedMode learns the modes of closed directories
	opened map[uint64]*openedDir // the open directories by inode, see host_open.go
	locked *os.File              // the lock of lockDir, which keeps other applies out of the directory; nil if the user cannot lock it
}

func openHost(dir string) (*host, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	h := &host{root: fd, dir: -1, alias: map[string]string{}, opened: map[uint64]*openedDir{}}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		h.path, err = os.Readlink(procPath(fd))
	}

	h.temps = fmt.Sprintf("%s%x-", tempPrefix, st.Ino)

	var system unix.Statfs_t
	h.overlay = unix.Fstatfs(fd, &system) == nil && system.Type == unix.OVERLAYFS_SUPER_MAGIC
	return h, err
}

func (h *host) close() {
	_ = h.closeUp() // if it fails, the next apply closes the directories
	h.locked.Close()
	h.forget()
	_ = unix.Close(h.root) // it was opened for reading, so close reports no errors of writes
}

// forget closes the descriptor of the directory that was opened last.
func (h *host) forget() {
	if h.dir >= 0 {
		_ = unix.Close(h.dir) // an O_PATH descriptor, of which close reports no errors of writes
		h.dir = -1
	}
}

// open returns a descriptor (O_PATH) of a directory. The next call may close it.
func (h *host) open(p *tree.Path) (int, error) {
	if p == nil {
		return h.root, nil
	}
	if h.dir >= 0 && h.at == p.String() {
		return h.dir, nil
	}

	fd, err := h.walk(p)
	if err != nil {
		return -1, err
	}

	h.forget()
	h.dir, h.at = fd, p.String()

	return fd, nil
}

// walk returns a new descriptor (O_PATH) of a directory. The caller closes it.
func (h *host) walk(p *tree.Path) (int, error) {
	if p == nil {
		return unix.FcntlInt(uintptr(h.root), unix.F_DUPFD_CLOEXEC, 0)
	}
	above, err := h.walk(p.Dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)

	var fd int
	err = h.withOpenDir(above, p.Dir, func() (err error) {
		fd, err = unix.Openat(above, cmp.Or(h.alias[p.String()], p.Name), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})

	return fd, err
}

// isNew reports whether a directory, or one above it, still has its temporary name.
func (h *host) isNew(p *tree.Path) bool {
	for ; p != nil; p = p.Dir {
		if h.alias[p.String()] != "" {
			return true
		}
	}
	return false
}

// A hostEntry is the file or directory at a path of the host, or its absence.
type hostEntry struct {
	unreachable error // why the directory above cannot be opened: ENOENT or ENOTDIR; else nil
	exists      bool
	open        bool // the mode on disk includes openMode; st.Mode is the mode without it
	st          unix.Stat_t
}

func (p hostEntry) isDir() bool { return p.exists && p.st.Mode&unix.S_IFMT == unix.S_IFDIR }

// changed reports whether the entry at a path was replaced, or its attributes or contents changed.
func (p hostEntry) changed(now hostEntry) bool {
	if p.exists != now.exists {
		return true
	}
	a, b := p.st, now.st
	return p.exists && (a.Dev != b.Dev || a.Ino != b.Ino || a.Mode != b.Mode ||
		!p.isDir() && (a.Size != b.Size || a.Mtim != b.Mtim || a.Ctim != b.Ctim))
}

// dirOf returns a descriptor of the directory that has a path as an entry. The next call may close it.
func (h *host) dirOf(p *tree.Path) (int, error) {
	if p == nil {
		return h.root, nil
	}
	return h.open(p.Dir)
}

// nameOf returns the name of a path in the directory that dirOf returns.
func nameOf(p *tree.Path) string {
	if p == nil {
		return "."
	}
	return p.Name
}

// look returns the entry at a path. An absent entry is no error.
func (h *host) look(p *tree.Path) (at hostEntry, err error) {
	above := p
	if p != nil {
		above = p.Dir
	}

	dir, err := h.dirOf(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return hostEntry{unreachable: err}, nil
	}
	if err == nil {
		err = h.withOpenDir(dir, above, func() error { return unix.Fstatat(dir, nameOf(p), &at.st, unix.AT_SYMLINK_NOFOLLOW) })
	}

	switch {
	case errors.Is(err, unix.ENOENT):
		return hostEntry{}, nil
	case err != nil:
		return at, fmt.Errorf("looking at %q: %w", p.Short(), err)
	}

	if at.exists = true; at.isDir() {
		mode := at.st.Mode
		at.st.Mode, _ = h.closedMode(p, mode)
		at.open = at.st.Mode != mode
	}

	return at, nil
}

func (h *host) readlink(p *tree.Path) (string, error) {
	dir, err := h.dirOf(p)
	if err != nil {
		return "", err
	}

	to, err := os.Readlink(procPath(dir) + "/" + p.Name)
	if err != nil {
		return "", fmt.Errorf("reading the link %q: %w", p.Short(), reason(err))
	}

	return to, nil
}

// file opens a regular file.
func (h *host) file(p *tree.Path) (*os.File, error) {
	dir, err := h.dirOf(p)
	if err != nil {
		return nil, err
	}
	return openIn(dir, p.Name, unix.O_RDONLY)
}

func openIn(dir int, name string, how int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, how|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// list returns the entries of a directory.
func (h *host) list(p *tree.Path) (entries []fs.DirEntry, err error) {
	dir, err := h.open(p)
	if err == nil {
		err = h.withOpenDir(dir, p, func() (err error) {
			entries, err = os.ReadDir(procPath(dir))
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", cmp.Or(p.Short(), "."), reason(err))
	}

	return entries, nil
}

func (h *host) xattrs(p *tree.Path) ([]tree.Xattr, error) {
	dir, err := h.dirOf(p)
	if err != nil {
		return nil, err
	}

	fd, err := unix.Openat(dir, nameOf(p), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)

	return readXattrs(procPath(fd), make([]byte, 64<<10))
}

func hasXattr(n *tree.Inode, name string) bool {
	_, ok := n.Xattr(name)
	return ok
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
