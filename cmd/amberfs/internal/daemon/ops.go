package daemon

import (
	"context"
	"errors"
	"strings"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/live"
)

// op answers one kind of request.
type op func(d *Daemon, ctx context.Context, c *control.Call) (any, error)

// ops are the operations, by their names on the socket.
var ops = map[string]op{
	"hello":      (*Daemon).opHello,
	"umount":     (*Daemon).opUmount,
	"snapshot":   (*Daemon).opSnapshot,
	"list":       (*Daemon).opList,
	"show":       (*Daemon).opShow,
	"rename":     (*Daemon).opRename,
	"pin":        (*Daemon).opPin,
	"remove":     (*Daemon).opRemove,
	"restore":    (*Daemon).opRestore,
	"revert":     (*Daemon).opRevert,
	"history":    (*Daemon).opHistory,
	"diff":       (*Daemon).opDiff,
	"fork":       (*Daemon).opFork,
	"forks":      (*Daemon).opForks,
	"end-fork":   (*Daemon).opEndFork,
	"promote":    (*Daemon).opPromote,
	"status":     (*Daemon).opStatus,
	"freeze":     (*Daemon).opFreeze,
	"thaw":       (*Daemon).opThaw,
	"gc":         (*Daemon).opGC,
	"verify":     (*Daemon).opVerify,
	"log":        (*Daemon).opLog,
	"import":     (*Daemon).opImport,
	"stampindex": (*Daemon).opStampIndex,
	"open":       (*Daemon).opOpen,
	"exported":   (*Daemon).opExported,
	"export-tar": (*Daemon).opExportTar,
	"policy":     (*Daemon).opPolicy,
}

// changing are the operations that a read-only mount refuses, as the kernel
// refuses what control files would do. A capture changes nothing that is there.
var changing = map[string]bool{
	"rename": true, "remove": true, "restore": true, "revert": true, "fork": true, "end-fork": true,
	"promote": true, "import": true, "stampindex": true,
}

// readOnly reports whether the mount is, by now: it can be remounted.
func (d *Daemon) readOnly() bool {
	mounts, err := locate.Mounts()
	if err != nil {
		return d.cfg.Options.ReadOnly
	}
	m, ok := locate.On(mounts, d.cfg.Mountpoint)
	return ok && m.ReadOnly
}

// handle is the control socket's handler.
func (d *Daemon) handle(ctx context.Context, c *control.Call) (any, error) {
	f, ok := ops[c.Op]
	if !ok {
		return nil, fail.New(fail.Usage, "the daemon knows no operation %q", c.Op).
			WithHint("it may be an older amberfs: mount again with this one")
	}
	select {
	case <-d.up:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if d.ending.Load() {
		return nil, fail.New(fail.Busy, "the mount at %s is ending", d.cfg.Mountpoint)
	}
	if changing[c.Op] && d.readOnly() {
		return nil, fail.New(fail.Failed, "the mount at %s is read-only", d.cfg.Mountpoint).WithHint("mount it without ro")
	}
	result, err := f(d, ctx, c)
	return result, explain(err)
}

// explain gives an error of the packages below its kind.
func explain(err error) error {
	if err == nil {
		return nil
	}
	var known *fail.Error
	if errors.As(err, &known) {
		return err
	}
	for _, m := range []struct {
		is   error
		kind fail.Kind
	}{
		{snapshot.ErrNotFound, fail.NotFound},
		{snapshot.ErrNoFork, fail.NotFound},
		{snapshot.ErrNoPath, fail.NotFound},
		{snapshot.ErrExists, fail.Exists},
		{snapshot.ErrInvalid, fail.Usage},
		{snapshot.ErrBadName, fail.Usage},
		{snapshot.ErrNameTooLong, fail.Usage},
		{snapshot.ErrBusy, fail.Busy},
		{snapshot.ErrQuota, fail.NoSpace},
		{live.ErrNotExist, fail.NotFound},
		{live.ErrNoSpace, fail.NoSpace},
		{live.ErrQuota, fail.NoSpace},
		{cas.ErrNoSpace, fail.NoSpace},
		{live.ErrDamaged, fail.Damage},
		{cas.ErrDamaged, fail.Damage},
		{journal.ErrDamaged, fail.Damage},
	} {
		if errors.Is(err, m.is) {
			return fail.New(m.kind, "%w", err)
		}
	}
	return fail.New(fail.KindOf(err), "%w", err)
}

// workspace finds the workspace that a request is about.
func (d *Daemon) workspace(c *control.Call) (*snapshot.Workspace, error) {
	ws := d.store.Main()
	for i, name := range c.Workspace {
		next, err := ws.ForkNamed(name)
		if err != nil {
			return nil, fail.New(fail.NotFound, "there is no fork %s", strings.Join(c.Workspace[:i+1], "/")).
				WithHint("see `amberfs forks`")
		}
		ws = next
	}
	return ws, nil
}

// caller is who asks.
func caller(c *control.Call) live.Caller {
	return live.Caller{UID: c.Peer.UID, GID: c.Peer.GID, PID: uint32(c.Peer.PID), Direct: true}
}

func (d *Daemon) opHello(_ context.Context, _ *control.Call) (any, error) {
	return d.hello(), nil
}

func (d *Daemon) opUmount(_ context.Context, c *control.Call) (any, error) {
	var req struct {
		Lazy bool `json:"lazy"`
	}
	if err := c.Decode(&req); err != nil {
		return nil, err
	}
	d.log.Info("umount", "uid", c.Peer.UID, "pid", c.Peer.PID, "lazy", req.Lazy)
	return d.hello(), d.unmount(req.Lazy)
}
