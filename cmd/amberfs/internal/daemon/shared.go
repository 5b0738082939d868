package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/takeover/keeper"
	"github.com/amberfs/amberfs/internal/errs"
)

// sharedMount counts the `run` commands that use a daemon's mount.
type sharedMount struct {
	mu       sync.Mutex // guards the fields below, after start
	users    int
	ending   bool
	madeDirs []string // directories that makeMountpoint made
}

// firstJoinTimeout is the time for which a daemon that `run` started waits for its first user.
const firstJoinTimeout = 10 * time.Second

// IsolateMounts makes the mounts of this namespace slaves of the mounts outside (mount_namespaces(7)). What is mounted
// or unmounted outside is also mounted or unmounted here, so that this namespace keeps no mount busy. What is mounted
// here does not appear outside.
func IsolateMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return errs.Fail(errs.Perm, "cannot make the mounts private: %w", err)
	}
	return nil
}

// RunMountpoint returns the directory on which `run STORE` mounts the workspace.
func RunMountpoint(store string) string { return filepath.Join(store, "mnt") }

// joinMount counts a user, and returns a detached copy of the mount for this user (open_tree(2)). A daemon that an
// ordinary user started with `mount` may not copy mounts: then joinMount returns nil, and the user uses the visible
// mount.
func (d *Daemon) joinMount(options string) (*os.File, error) {
	d.sharedMount.mu.Lock()
	defer d.sharedMount.mu.Unlock()

	if d.sharedMount.ending || d.mount.ending.Load() {
		return nil, errs.Fail(errs.NotExist, "the daemon of the store %s is ending", d.cfg.Store)
	}

	if ours := d.cfg.Options.String(); options != "" && options != ours {
		return nil, errs.Fail(errs.Exist, "the store %s is in use with other options: %q", d.cfg.Store, ours).
			WithHint("use the same options, or none")
	}

	// `run` mounts its copy on this directory, unless the user named another directory.
	d.makeMountpoint(RunMountpoint(d.cfg.Store))
	var tree *os.File
	fd, err := unix.OpenTree(unix.AT_FDCWD, d.cfg.Mountpoint, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	switch {
	case err == nil:
		tree = os.NewFile(uintptr(fd), "mount")
	case !errors.Is(err, unix.EPERM):
		return nil, errs.Fail(errs.Failed, "cannot copy the mount at %s: %w", d.cfg.Mountpoint, err)
	}

	d.sharedMount.users++

	return tree, nil
}

// leaveMount records that a user has ended. It reports whether the daemon ends because of this.
func (d *Daemon) leaveMount() (ends bool) {
	d.sharedMount.mu.Lock()
	d.sharedMount.users--
	d.sharedMount.mu.Unlock()
	return d.endIfUnused()
}

// endIfUnused unmounts, and so ends the daemon, if `run` started the daemon and the mount has no users.
func (d *Daemon) endIfUnused() (ends bool) {
	d.sharedMount.mu.Lock()
	ends = d.cfg.Shared && d.sharedMount.users == 0 && !d.sharedMount.ending
	d.sharedMount.ending = d.sharedMount.ending || ends
	d.sharedMount.mu.Unlock()

	if ends {
		if err := d.unmount(true); err != nil {
			d.log.Error("unmounting at the end of the last run", "err", err)
			d.mount.endDetached()
		}
	}

	return ends
}

// unmountForCommand unmounts for the command `umount`. Unless lazy is set, it fails if the mount has users.
func (d *Daemon) unmountForCommand(lazy bool) error {
	d.sharedMount.mu.Lock()
	n := d.sharedMount.users
	d.sharedMount.mu.Unlock()
	if n > 0 && !lazy {
		return errs.Fail(errs.Busy, "the mount at %s is in use by amberfs run (%d)", d.cfg.Mountpoint, n)
	}

	return d.unmount(lazy)
}

// makeMountpoint makes a directory that removeMountpoints removes at the end. The callers of both functions must have
// locked the store: without the lock, another daemon could have mounted on the directory, and the removal would unmount
// that mount in other namespaces.
func (d *Daemon) makeMountpoint(dir string) {
	if os.Mkdir(dir, 0o700) == nil {
		d.sharedMount.madeDirs = append(d.sharedMount.madeDirs, dir)
		d.cfg.Keeper.Send(keeper.Message{MadeDirs: d.sharedMount.madeDirs})
	}
}

func (d *Daemon) removeMountpoints() {
	for _, dir := range d.sharedMount.madeDirs {
		_ = unix.Rmdir(dir)
	}
}
