package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
)

// Also is one of the other directories of a run. The program sees it at its own path.
type Also struct {
	Store string // "" for a directory of the host that is only read
	Dir   string
	Fork  string // "" for the workspace main of Store

	Served Served // the daemon that serves Store; Outer sets it
}

// joinAlso connects to the daemons of the other stores of a run, and starts the daemons that are not running.
// trees has a copy of the mount for each directory of c.Also, or nil for a directory of the host. The caller
// must leave the daemons in all, even after an error.
func joinAlso(ctx context.Context, c *Config, s daemon.Starter) (all []*service.JoinConnection, trees []*os.File, err error) {
	if c.Plain && len(c.Also) > 0 {
		return nil, nil, errs.Fail(errs.Failed, "several directories in a run need namespaces, which this system forbids to ordinary users").
			WithHint("see `amberfs doctor`")
	}

	for i := range c.Also {
		a := &c.Also[i]
		if a.Store == "" {
			trees = append(trees, nil)
			continue
		}

		one := Config{Store: a.Store, UserNS: c.UserNS, Options: c.Options}
		j, err := joinStore(ctx, &one, s)
		if err != nil {
			return all, trees, err
		}

		a.Served = one.Served
		all, trees = append(all, j), append(trees, j.MountCopy)
	}

	return all, trees, nil
}

// daemons returns the ids of the processes that were started for the stores of a run.
func daemons(c Config) []int {
	out := []int{c.Served.Daemon}
	for _, a := range c.Also {
		out = append(out, a.Served.Daemon)
	}
	return out
}

// killDaemons kills the daemons of the temporary stores of a run, and their keepers. The stores are then removed,
// so their data need not be written.
func killDaemons(c Config) {
	for _, id := range daemons(c) {
		if id > 0 {
			_ = unix.Kill(-id, unix.SIGKILL) // the group of the keeper
		}
	}
}

// joinForks registers the program as a user of each fork of a run, until leave is called.
func joinForks(ctx context.Context, c Config, s daemon.Starter) (leave func(), err error) {
	var used []Joined
	leave = sync.OnceFunc(func() {
		for _, u := range used {
			u.Leave()
		}
	})
	if !c.InPlace {
		return leave, nil
	}

	for _, a := range append([]Also{{Store: c.Store, Fork: c.Fork}}, c.Also...) {
		if a.Store == "" {
			continue
		}

		u, err := Join(ctx, a.Store, a.Fork, s)
		if err != nil {
			return leave, err
		}
		used = append(used, u)
	}

	return leave, nil
}

// attachAlso mounts the other directories of a run.
func attachAlso(c Config) error {
	for i, a := range c.Also {
		var err error
		if a.Store == "" {
			err = attachReadOnly(a.Dir)
		} else {
			one := Config{Store: a.Store, Mountpoint: a.Dir, Fork: a.Fork, InPlace: a.Fork != "", Served: a.Served}
			err = attach(one, alsoFD+i)
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
