package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// endTime bounds the wait for a daemon whose mount is gone and that still
// writes to its store.
const endTime = 30 * time.Second

// openStore opens a store. umount(8) returns when the kernel is done, which is
// before the daemon is; a store that is still being closed is waited for, so
// that one can unmount and mount again as with any file system.
func openStore(dir string, o snapshot.Options) (*snapshot.Store, error) {
	var s *snapshot.Store
	err := afterEnd(func() (err error) {
		s, err = snapshot.Open(dir, o)
		return err
	})
	return s, err
}

// afterEnd calls f again while the daemon that keeps f from the store is ending.
func afterEnd(f func() error) error {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err := f()
		var locked *storedir.LockedError
		if !errors.As(err, &locked) || !ending(locked.Dir, locked.PID, locked.Mountpoint) || time.Since(began) > endTime {
			return err
		}
	}
}

// WhenFree calls f again while another process fills the store, or its daemon starts or
// ends. f fails with an error of kind Busy then.
func WhenFree(ctx context.Context, store string, f func() error) error {
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := f()
		if fail.KindOf(err) != fail.Busy || ctx.Err() != nil {
			return err
		}
		if h, herr := storedir.ReadHolder(store); herr == nil && h.Mountpoint == "" {
			began = time.Now() // filling may take as long as it likes
		}
		if time.Since(began) > endTime {
			return err
		}
	}
}

// ending reports whether the process that has a store was its daemon and has
// no mount of it any more, as its own mount table tells: a daemon may have a
// mount namespace of its own. One that starts is taken for ending until it has
// mounted.
func ending(store string, pid int, point string) bool {
	if pid <= 0 || point == "" {
		return false
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		// A process has no mount table from the middle of its exit on, when it
		// has no command line any more either.
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return err != nil || len(line) == 0
	}
	defer f.Close()
	mounts, err := locate.Parse(f)
	return err == nil && len(locate.OfStore(mounts, store)) == 0
}
