package main

import (
	"context"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// A source is the state from which a volume begins: the state in one of the first three fields, or the state of
// main if these fields are empty.
type source struct {
	baseSnapshot string // a snapshot of main, or REMOTE@SNAPSHOT
	volume       string
	snapshot     string
	remote       string // the remote with the snapshot, if the snapshot is not on this node
}

// name returns the name of the source in records.
func (s source) name() string {
	switch {
	case s.volume != "":
		return s.volume
	case s.snapshot != "":
		return s.snapshot
	}
	return s.baseSnapshot
}

// parseSource returns the source of a volume. A source in the request has precedence over the parameter "from" of the
// class.
func parseSource(content *csi.VolumeContentSource, p map[string]string) (source, error) {
	s := source{remote: p[remoteParameter]}

	switch t := content.GetType().(type) {
	case nil:
		s.baseSnapshot = p[fromParameter]
	case *csi.VolumeContentSource_Snapshot:
		if s.snapshot = t.Snapshot.GetSnapshotId(); s.snapshot == "" {
			return s, invalidArgument("the snapshot_id of the source is missing")
		}
	case *csi.VolumeContentSource_Volume:
		if s.volume = t.Volume.GetVolumeId(); s.volume == "" {
			return s, invalidArgument("the volume_id of the source is missing")
		}
	default:
		return s, invalidArgument("a volume begins with a snapshot or a volume, not with %T", t)
	}

	return s, nil
}

// withRemoteURL returns the source with the remote at url, which contains its credentials.
func (s source) withRemoteURL(url string) source {
	if name, ok := strings.CutPrefix(s.baseSnapshot, s.remote+"@"); ok && s.remote != "" {
		s.baseSnapshot = url + "@" + name
	}
	s.remote = url
	return s
}

// contentSnapshot is the name of the snapshot in a fork that was made for a CSI snapshot.
const contentSnapshot = "content"

// forkSource makes a fork of a source, and returns the size of its files.
func (d *driver) forkSource(ctx context.Context, id string, src source, ttl string) (int64, error) {
	err := d.forkOrReplace(ctx, id, func() (err error) {
		switch {
		case src.volume != "":
			err = d.forkVolume(ctx, id, src.volume, ttl)
		case src.snapshot != "":
			err = d.forkSnapshot(ctx, id, src, ttl)
		default:
			_, err = d.createFork(ctx, id, src.baseSnapshot, ttl)
		}
		return err
	})

	var size service.Sized
	if err == nil {
		err = d.callDaemon(ctx, id, service.Size{}, &size)
	}

	return size.Bytes, err
}

// forkOrReplace calls create, which creates the fork id. If the fork exists without a record, because the driver was
// killed, forkOrReplace discards the fork and calls create again.
func (d *driver) forkOrReplace(ctx context.Context, id string, create func() error) error {
	err := create()
	if !hasKind(err, errs.Exist) {
		return err
	}
	if err := d.discardFork(ctx, id); err != nil {
		return err
	}

	return create()
}

// createFork makes a fork that leaves no snapshot in main when it ends, because other tenants could read that
// snapshot.
func (d *driver) createFork(ctx context.Context, id, baseSnapshot, ttl string) (f service.Forked, err error) {
	err = d.callDaemon(ctx, "", snapshot.ForkOptions{Name: id, Snapshot: baseSnapshot, TTL: ttl, Discard: true}, &f)
	return f, err
}

// forkVolume forks the present state of a volume. It does not take a snapshot in the volume for this: the pod
// could already have taken a snapshot with that name, or as many snapshots as its limit allows.
func (d *driver) forkVolume(ctx context.Context, id, volume, ttl string) error {
	if _, err := d.findRecord(ctx, volumeKind, volume); err != nil {
		return err
	}
	_, err := d.createFork(ctx, id, volume+"/", ttl)
	return err
}

// forkSnapshot forks a snapshot of this node or of the remote. The contents of a snapshot on the remote are
// fetched when they are read.
func (d *driver) forkSnapshot(ctx context.Context, id string, src source, ttl string) error {
	_, err := d.findRecord(ctx, snapshotKind, src.snapshot)
	switch {
	case err == nil:
		_, err = d.createFork(ctx, id, src.snapshot+"/"+contentSnapshot, ttl)
		return err
	case status.Code(err) != codes.NotFound || src.remote == "" || !strings.HasPrefix(src.snapshot, snapshotPrefix):
		return err
	}

	f, err := d.createFork(ctx, id, src.remote+"@"+src.snapshot, ttl)
	if err != nil || f.Snapshot == "" {
		return withRemoteCode(err)
	}

	// The snapshot from which the fork began has a name in main. The fork does not need this name, so it is removed.
	return ignoreKind(errs.NotExist, d.callDaemon(ctx, "", service.Remove{Names: []string{f.Snapshot}, Forget: true}, nil))
}
