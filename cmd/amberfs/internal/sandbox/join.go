package sandbox

import (
	"context"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
)

// leaveTime is how long the last `run` on a store waits for the end of the daemon.
const leaveTime = 30 * time.Second

// joinStore joins the daemon that serves the store, and starts one if there is none. It
// returns the process that it started, or 0.
func joinStore(ctx context.Context, c *Config, s daemon.Starter) (_ *service.Joined, pid int, err error) {
	want, err := mountOptions(*c)
	if err != nil {
		return nil, 0, err
	}
	var j *service.Joined
	err = daemon.WhenFree(ctx, c.Store, func() (err error) {
		for {
			j, err = service.Join(ctx, c.Store, service.JoinRequest{Options: want})
			if fail.KindOf(err) != fail.NotFound || ctx.Err() != nil {
				return err
			}
			if pid, err = startShared(ctx, *c, s); err != nil {
				return err
			}
		}
	})
	if err != nil {
		return nil, 0, err
	}
	c.Shared, c.Tree = j.Mountpoint, j.Tree != nil
	return j, pid, nil
}

// mountOptions are the options that the caller has named.
func mountOptions(c Config) (string, error) {
	words := []string{}
	if c.Options != "" {
		words = append(words, c.Options)
	}
	if c.ReadOnly {
		words = append(words, "ro")
	}
	o, err := mountopt.Parse(words...)
	return o.String(), err
}

// startShared starts a daemon in namespaces of its own, so that it can go on when this
// process ends.
func startShared(ctx context.Context, c Config, s daemon.Starter) (pid int, err error) {
	attr := namespaces(c.UserNS)
	attr.Setsid, attr.Pdeathsig = true, 0
	_, cmd, err := daemon.Spawn(ctx, mountArgs(c, "--shared"), s, attr)
	if err != nil {
		return 0, namespaceError(c.UserNS, err)
	}
	return cmd.Process.Pid, nil
}

// attach puts a copy of the daemon's mount in the place where this run wants it.
func attach(c Config) error {
	tree := treeFD
	if !c.Tree { // the daemon may not copy it
		var err error
		if tree, err = unix.OpenTree(unix.AT_FDCWD, c.Shared, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
			return fail.New(fail.Busy, "the store %s is mounted at %s, and the mount cannot be used here: %w", c.Store, c.Shared, err).
				WithHint("unmount it first with `amberfs umount %s`", c.Shared)
		}
	}
	defer unix.Close(tree)
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, c.Mountpoint, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fail.New(fail.Failed, "cannot mount on %s: %w", c.Mountpoint, err)
	}
	return nil
}

// joinedDaemon is the shared daemon, as the inner process sees it.
func joinedDaemon() *inside {
	d := &inside{gone: make(chan struct{})}
	go func() {
		_, _ = os.NewFile(joinFD, "daemon").Read(make([]byte, 1)) // it sends nothing
		close(d.gone)
	}()
	return d
}
