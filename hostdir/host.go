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
	rootFD int
	// lastDirFD is a descriptor of the directory below the root that was opened last, or -1. lastDirPath is
	// the path of this directory.
	lastDirFD   int
	lastDirPath string
	// ownTempPrefix is the prefix of temporary names. It contains the inode number of the directory, so an
	// apply to a directory above or below this one uses a different prefix.
	ownTempPrefix string
	// onOverlay is set if the directory is on overlayfs, see placer.wasCopiedUp.
	onOverlay bool
	// tempNames maps the paths of new directories to their temporary names, until they are renamed to their
	// final names.
	tempNames  map[string]string
	path       string // the path of the directory, without symbolic links
	src        *tree.Source
	states     []*tree.State         // versions of the directory in src, from which closedMode learns the modes of closed directories
	openedDirs map[uint64]*openedDir // the open directories by inode, see host_open.go
	lockFile   *os.File              // the lock of lockDir, which keeps other applies out of the directory; nil if the user cannot lock it
}

func openHost(dir string) (*host, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}

	h := &host{rootFD: fd, lastDirFD: -1, tempNames: map[string]string{}, openedDirs: map[uint64]*openedDir{}}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		h.path, err = os.Readlink(procPath(fd))
	}

	h.ownTempPrefix = fmt.Sprintf("%s%x-", tempPrefix, st.Ino)

	var system unix.Statfs_t
	h.onOverlay = unix.Fstatfs(fd, &system) == nil && system.Type == unix.OVERLAYFS_SUPER_MAGIC
	return h, err
}

func (h *host) close() {
	_ = h.restoreModes() // if it fails, the next apply restores the modes
	h.lockFile.Close()
	h.closeLastDir()
	_ = unix.Close(h.rootFD) // it was opened for reading, so an error of close means nothing
}

// closeLastDir closes the descriptor of the directory that was opened last.
func (h *host) closeLastDir() {
	if h.lastDirFD >= 0 {
		_ = unix.Close(h.lastDirFD) // an O_PATH descriptor, so an error of close means nothing
		h.lastDirFD = -1
	}
}

// dirFD returns a descriptor (O_PATH) of a directory. The next call may close it.
func (h *host) dirFD(p *tree.Path) (int, error) {
	if p == nil {
		return h.rootFD, nil
	}
	if h.lastDirFD >= 0 && h.lastDirPath == p.String() {
		return h.lastDirFD, nil
	}

	fd, err := h.newDirFD(p)
	if err != nil {
		return -1, err
	}

	h.closeLastDir()
	h.lastDirFD, h.lastDirPath = fd, p.String()

	return fd, nil
}

// newDirFD returns a new descriptor (O_PATH) of a directory. The caller closes it.
func (h *host) newDirFD(p *tree.Path) (int, error) {
	if p == nil {
		return unix.FcntlInt(uintptr(h.rootFD), unix.F_DUPFD_CLOEXEC, 0)
	}
	parent, err := h.newDirFD(p.Dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)

	var fd int
	err = h.withOpenDir(parent, p.Dir, func() (err error) {
		fd, err = unix.Openat(parent, cmp.Or(h.tempNames[p.String()], p.Name), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return err
	})

	return fd, err
}

// isNew reports whether a directory, or one above it, still has its temporary name.
func (h *host) isNew(p *tree.Path) bool {
	for ; p != nil; p = p.Dir {
		if h.tempNames[p.String()] != "" {
			return true
		}
	}
	return false
}

// A hostEntry is the file or directory at a path of the host, or its absence.
type hostEntry struct {
	parentErr   error // why the directory above cannot be opened: ENOENT or ENOTDIR; else nil
	exists      bool
	hasOpenMode bool // the mode on disk includes openMode; st.Mode is the mode without it
	st          unix.Stat_t
}

func (p hostEntry) isDir() bool { return p.exists && p.st.Mode&unix.S_IFMT == unix.S_IFDIR }

// differsFrom reports whether the entry at a path was replaced, or its attributes or contents changed.
func (p hostEntry) differsFrom(now hostEntry) bool {
	if p.exists != now.exists {
		return true
	}
	a, b := p.st, now.st
	return p.exists && (a.Dev != b.Dev || a.Ino != b.Ino || a.Mode != b.Mode ||
		!p.isDir() && (a.Size != b.Size || a.Mtim != b.Mtim || a.Ctim != b.Ctim))
}

// parentFD returns a descriptor of the directory that has a path as an entry. The next call may close it.
func (h *host) parentFD(p *tree.Path) (int, error) {
	if p == nil {
		return h.rootFD, nil
	}
	return h.dirFD(p.Dir)
}

// nameOf returns the name that a path has in the directory of parentFD.
func nameOf(p *tree.Path) string {
	if p == nil {
		return "."
	}
	return p.Name
}

// entryAt returns the entry at a path. An absent entry is no error.
func (h *host) entryAt(p *tree.Path) (entry hostEntry, err error) {
	parent := p
	if p != nil {
		parent = p.Dir
	}

	dir, err := h.parentFD(p)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return hostEntry{parentErr: err}, nil
	}
	if err == nil {
		err = h.withOpenDir(dir, parent, func() error { return unix.Fstatat(dir, nameOf(p), &entry.st, unix.AT_SYMLINK_NOFOLLOW) })
	}

	switch {
	case errors.Is(err, unix.ENOENT):
		return hostEntry{}, nil
	case err != nil:
		return entry, fmt.Errorf("looking at %q: %w", p.Short(), err)
	}

	if entry.exists = true; entry.isDir() {
		mode := entry.st.Mode
		entry.st.Mode, _ = h.closedMode(p, mode)
		entry.hasOpenMode = entry.st.Mode != mode
	}

	return entry, nil
}

// readlink returns the target of a symbolic link.
func (h *host) readlink(p *tree.Path) (string, error) {
	dir, err := h.parentFD(p)
	if err != nil {
		return "", err
	}

	to, err := os.Readlink(procPath(dir) + "/" + p.Name)
	if err != nil {
		return "", fmt.Errorf("reading the link %q: %w", p.Short(), withoutPath(err))
	}

	return to, nil
}

// openFile opens a regular file.
func (h *host) openFile(p *tree.Path) (*os.File, error) {
	dir, err := h.parentFD(p)
	if err != nil {
		return nil, err
	}
	return openIn(dir, p.Name, unix.O_RDONLY)
}

// openIn opens the file with a name in a directory, without following a symbolic link.
func openIn(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// readDir returns the entries of a directory, sorted by name.
func (h *host) readDir(p *tree.Path) (entries []fs.DirEntry, err error) {
	dir, err := h.dirFD(p)
	if err == nil {
		err = h.withOpenDir(dir, p, func() (err error) {
			entries, err = os.ReadDir(procPath(dir))
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("listing %q: %w", cmp.Or(p.Short(), "."), withoutPath(err))
	}

	return entries, nil
}

// xattrs returns the extended attributes of a file or directory.
func (h *host) xattrs(p *tree.Path) ([]tree.Xattr, error) {
	dir, err := h.parentFD(p)
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
