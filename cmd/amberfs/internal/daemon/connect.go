package daemon

import (
	"context"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/service"
)

// connect prepares the connection to remotes; the store opens it.
func (d *Daemon) connect() {
	d.hangUp = func() {}
	timeout := d.cfg.Options.Timeout
	if d.cfg.Options.Hard {
		timeout = -1
	}
	d.connection = &service.Connection{From: d.cfg.Remote, OrEmpty: d.cfg.OrEmpty, Timeout: timeout, Log: d.log}
}

// keepConnected begins what a store that reads from elsewhere does by itself.
func (d *Daemon) keepConnected() {
	ctx, cancel := context.WithCancel(context.Background())
	d.hangUp, d.life = cancel, ctx
	d.later("removing exports", d.dropExports) // the last daemon may have been killed before
	d.background.Go(func() {
		guard.Call(d.log, "remotes", func() { d.connection.Run(ctx, d.cfg.Options.Prefetch) })
	})
	d.background.Go(func() { guard.Call(d.log, "pushes of the policy", func() { d.service.Backup(ctx) }) })
}

func (d *Daemon) disconnect() {
	d.hangUp()
	d.connection.Close()
}
