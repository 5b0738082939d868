package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
)

// OtherDir is one of the other directories of a run. The program sees it at its own path.
type OtherDir struct {
	Store string // "" for a directory of the host that is only read
	Dir   string
	Fork  string // "" for the workspace main of Store

	Server Server // the daemon that serves Store; RunOuter sets it
}

// joinOtherStores connects to the daemons of the other stores of a run, and starts the daemons that are not running.
// The caller must call leaveDaemon for each connection, even after an error. mountCopies has a copy of the mount for
// each directory of c.OtherDirs, or nil for a directory of the host.
func joinOtherStores(ctx context.Context, c *Config, s daemon.MessageFunc) (connections []*service.JoinConnection, mountCopies []*os.File, err error) {
	if c.NoNamespaces && len(c.OtherDirs) > 0 {
		return nil, nil, errs.Fail(errs.Failed, "several directories in a run need namespaces, which this system forbids to ordinary users").
			WithHint("see `amberfs doctor`")
	}

	for i := range c.OtherDirs {
		a := &c.OtherDirs[i]
		if a.Store == "" {
			mountCopies = append(mountCopies, nil)
			continue
		}

		config := Config{Store: a.Store, UserNS: c.UserNS, Options: c.Options}
		j, err := joinStore(ctx, &config, s)
		if err != nil {
			return connections, mountCopies, err
		}

		a.Server = config.Server
		connections, mountCopies = append(connections, j), append(mountCopies, j.MountCopy)
	}

	return connections, mountCopies, nil
}

// daemonPIDs returns the ids of the processes that were started for the stores of a run.
func daemonPIDs(c Config) []int {
	out := []int{c.Server.DaemonPID}
	for _, a := range c.OtherDirs {
		out = append(out, a.Server.DaemonPID)
	}
	return out
}

// killDaemons kills the daemons of the temporary stores of a run, and their keepers. The stores are then removed,
// so their data need not be written.
func killDaemons(c Config) {
	for _, id := range daemonPIDs(c) {
		if id > 0 {
			_ = unix.Kill(-id, unix.SIGKILL) // a negative id is a process group, here of the keeper
		}
	}
}

// joinForks registers the program as a user of each fork of a run, until leave is called.
func joinForks(ctx context.Context, c Config, s daemon.MessageFunc) (leave func(), err error) {
	var leaveForks []func()
	leave = func() {
		for _, leaveFork := range leaveForks {
			leaveFork()
		}
	}
	if !c.InPlace {
		return leave, nil
	}

	for _, dir := range append([]OtherDir{{Store: c.Store, Fork: c.Fork}}, c.OtherDirs...) {
		if dir.Store == "" {
			continue
		}

		leaveFork, err := JoinFork(ctx, dir.Store, dir.Fork, s)
		if err != nil {
			return leave, err
		}
		leaveForks = append(leaveForks, leaveFork)
	}

	return leave, nil
}

// attachOtherDirs mounts the other directories of a run.
func attachOtherDirs(c Config) error {
	for i, a := range c.OtherDirs {
		var err error
		if a.Store == "" {
			err = attachReadOnly(a.Dir)
		} else {
			config := Config{Store: a.Store, Mountpoint: a.Dir, Fork: a.Fork, InPlace: a.Fork != "", Server: a.Server}
			err = attachMount(config, otherDirsFD+i)
		}
		if err != nil {
			return err
		}
	}

	return nil
}

// attachReadOnly mounts a directory on itself, read-only, with the mounts below it.
func attachReadOnly(dir string) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return errs.Fail(errs.Failed, "cannot copy the mount of %s: %w", dir, err)
	}
	defer unix.Close(fd)

	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	if errors.Is(err, unix.ENOSYS) {
		err = fmt.Errorf("%w: it needs Linux 5.12", err)
	}
	if err == nil {
		err = unix.MoveMount(fd, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH)
	}
	if err != nil {
		return errs.Fail(errs.Failed, "cannot make %s read-only: %w", dir, err)
	}

	return nil
}
