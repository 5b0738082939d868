package daemon

import (
	"os"

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
		Debug:          o.Debug,
		Logger:         d.log,
		OnEvent:        d.mountEvent,
		Control: fusefs.Control{
			Diff: d.diffControlFile, Status: d.statusControlFile, Log: d.logControlFile, Export: d.exportControlFile,
		},
	}
}
