package daemon

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/fusefs"
	"github.com/amberfs/amberfs/snapshot"
)

// storeOptions is how the store is opened.
func (d *Daemon) storeOptions() snapshot.Options {
	return snapshot.Options{Logger: d.log, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
}

// mountOptions is how it is mounted, with what control files need from the
// packages that fusefs does not know.
func (d *Daemon) mountOptions() fusefs.Options {
	o := d.cfg.Options
	return fusefs.Options{
		Store:          d.store,
		Mountpoint:     d.cfg.Mountpoint,
		AllowOther:     o.AllowOther,
		ReadOnly:       o.ReadOnly,
		Dev:            o.Dev,
		Suid:           o.Suid,
		SnapdirVisible: o.SnapdirVisible,
		ACL:            o.ACL,
		Timed:          o.Metrics != "",
		Debug:          o.Debug,
		Logger:         d.log,
		OnEvent:        d.mountEvent,
		Nudge:          d.watchers.time,
		Invalidated:    d.watchers.changed,
		Control: fusefs.Control{
			Diff: d.diffControlFile, Status: d.statusControlFile, Log: d.logControlFile, Export: d.exportControlFile,
		},
	}
}

// noExec takes the right to run programs from the mount, which has no word for
// it when it is made.
func (d *Daemon) noExec() error {
	o := d.cfg.Options
	if !o.NoExec {
		return nil
	}
	flags := uintptr(unix.MS_REMOUNT | unix.MS_BIND | unix.MS_NOEXEC)
	for _, f := range []struct {
		on   bool
		flag uintptr
	}{{!o.Suid, unix.MS_NOSUID}, {!o.Dev, unix.MS_NODEV}, {o.ReadOnly, unix.MS_RDONLY}} {
		if f.on {
			flags |= f.flag
		}
	}
	if err := unix.Mount("", d.cfg.Mountpoint, "", flags, ""); err != nil {
		return fail.New(fail.Failed, "cannot set noexec: %w", err)
	}
	return nil
}
