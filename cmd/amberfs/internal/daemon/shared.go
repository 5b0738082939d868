package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/keeper"
	"github.com/amberfs/amberfs/internal/errs"
)

// shared counts the `run` commands that use a daemon's mount.
type shared struct {
	mu     sync.Mutex
	users  int
	ending bool
	made   []string // empty directories that are removed at the end
}

const joinTime = 10 * time.Second

// PrivateMounts lets mounts of this namespace follow those outside, but not the other
// way round: a mount that is unmounted outside must not stay in use here.
func PrivateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return errs.Fail(errs.Perm, "cannot make the mounts private: %w", err)
	}
	return nil
}

// RunMountpoint is where `run STORE` mounts the workspace.
func RunMountpoint(store string) string { return filepath.Join(store, "mnt") }

// join counts a user, and copies the mount for it. An ordinary user's daemon outside of
// `run` may not copy mounts; its mount is visible to the user.
func (d *Daemon) join(options string) (*os.File, error) {
	d.shared.mu.Lock()
	defer d.shared.mu.Unlock()

	if d.shared.ending || d.ending.Load() {
		return nil, errs.Fail(errs.NotExist, "the daemon of the store %s is ending", d.cfg.Store)
	}

	if has := d.cfg.Options.String(); options != "" && options != has {
		return nil, errs.Fail(errs.Exist, "the store %s is in use with other options: %q", d.cfg.Store, has).
			WithHint("use the same options, or none")
	}

	// A mount point for a user that has no other one.
	d.makePoint(RunMountpoint(d.cfg.Store))
	var tree *os.File
	fd, err := unix.OpenTree(unix.AT_FDCWD, d.cfg.Mountpoint, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case err == nil:
		tree = os.NewFile(uintptr(fd), "mount")
	case !errors.Is(err, unix.EPERM):
		return nil, errs.Fail(errs.Failed, "cannot copy the mount at %s: %w", d.cfg.Mountpoint, err)
	}

	d.shared.users++

	return tree, nil
}

func (d *Daemon) leave() (ends bool) {
	d.shared.mu.Lock()
	d.shared.users--
	d.shared.mu.Unlock()
	return d.endUnused()
}

// endUnused ends a daemon that `run` started and that has no users.
func (d *Daemon) endUnused() (ends bool) {
	d.shared.mu.Lock()
	ends = d.cfg.Shared && d.shared.users == 0 && !d.shared.ending
	d.shared.ending = d.shared.ending || ends
	d.shared.mu.Unlock()

	if ends {
		if err := d.unmount(true); err != nil {
			d.log.Error("unmounting at the end of the last run", "err", err)
			d.end()
		}
	}

	return ends
}

// umount is what a user asks for.
func (d *Daemon) umount(lazy bool) error {
	d.shared.mu.Lock()
	n := d.shared.users
	d.shared.mu.Unlock()
	if n > 0 && !lazy {
		return errs.Fail(errs.Busy, "the mount at %s is in use by amberfs run (%d)", d.cfg.Mountpoint, n)
	}

	return d.unmount(lazy)
}

// makePoint makes a mount point that is removed at the end. Both are done while the store
// is locked, because removing a directory ends the mounts on it in other namespaces.
func (d *Daemon) makePoint(dir string) {
	if os.Mkdir(dir, 0o700) == nil {
		d.shared.made = append(d.shared.made, dir)
		d.tellKeeper(keeper.Message{Made: d.shared.made})
	}
}

func (d *Daemon) removeMade() {
	for _, dir := range d.shared.made {
		_ = unix.Rmdir(dir)
	}
}
