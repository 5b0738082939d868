package main

import (
	"cmp"
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

// CreateSnapshot makes a fork of the volume. The fork is not mounted in any pod, and outlives the volume.
// CreateSnapshot pushes the state of the fork to the remote that the snapshot's class names or, if the class names no
// remote, to the remote of the volume's class.
func (c controller) CreateSnapshot(ctx context.Context, req *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if req.GetName() == "" || req.GetSourceVolumeId() == "" {
		return nil, invalidArgument("the name or the source_volume_id is missing")
	}
	p, err := filterParameters(req.GetParameters(), remoteParameter)
	if err != nil {
		return nil, err
	}

	r := &record{ID: idForName(snapshotPrefix, req.GetName()), Kind: snapshotKind, Source: req.GetSourceVolumeId(), Remote: p[remoteParameter]}
	unlock, err := c.d.lockByID(r.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()

	existing, err := c.d.findRecord(ctx, snapshotKind, r.ID)
	switch {
	case err == nil:
		if existing.Source != r.Source {
			return nil, status.Errorf(codes.AlreadyExists, "the snapshot %s has the name, and is of the volume %s", r.ID, existing.Source)
		}
		r = existing
		if err := c.d.credentials.renew(r, req.GetSecrets()); err != nil {
			return nil, err
		}

	case status.Code(err) != codes.NotFound:
		return nil, err
	default:
		volume, err := c.d.findRecord(ctx, volumeKind, r.Source)
		if err != nil {
			return nil, err
		}

		r.Remote = cmp.Or(r.Remote, volume.Remote)
		err = c.d.withCredentials(ctx, r, req.GetSecrets(), func() error {
			r.addCredentials(volume)
			return c.d.takeSnapshot(ctx, r)
		})
		if err != nil {
			return nil, err
		}
	}

	s, err := c.d.snapshotMessage(ctx, r)
	return &csi.CreateSnapshotResponse{Snapshot: s}, err
}

// takeSnapshot takes a snapshot, pushes it and writes its record. If it is interrupted, the next call continues
// with the state that the first call took.
func (d *driver) takeSnapshot(ctx context.Context, r *record) error {
	state, err := d.captureVolume(ctx, r)
	if hasKind(err, errs.Exist) {
		state, err = d.contentSnapshotInfo(ctx, r.ID)
	}

	if hasKind(err, errs.NotExist) { // an earlier call was interrupted before it took the snapshot of the fork
		if err = d.discardFork(ctx, r.ID); err == nil {
			state, err = d.captureVolume(ctx, r)
		}
	}

	switch {
	case err != nil:
		return err
	case state.Labels[sourceLabel] != r.Source:
		return status.Errorf(codes.AlreadyExists, "the snapshot %s has the name, and is of the volume %s", r.ID, state.Labels[sourceLabel])
	}

	if r.Bytes = state.Bytes; r.Remote != "" {
		if err := d.pushSnapshot(ctx, r); err != nil {
			return err
		}
	}

	return d.writeRecord(ctx, r)
}

// snapshotMessage returns the CSI message about the snapshot of a record.
func (d *driver) snapshotMessage(ctx context.Context, r *record) (*csi.Snapshot, error) {
	state, err := d.contentSnapshotInfo(ctx, r.ID)
	if err != nil {
		return nil, err
	}
	return &csi.Snapshot{
		SnapshotId: r.ID, SourceVolumeId: r.Source, SizeBytes: r.Bytes, ReadyToUse: true, CreationTime: timestamppb.New(state.Created),
	}, nil
}

func (d *driver) contentSnapshotInfo(ctx context.Context, id string) (i info.Info, err error) {
	err = d.callDaemon(ctx, id, service.Show{Name: contentSnapshot}, &i)
	return i, err
}

// captureVolume makes the fork for a snapshot, and takes the fork's snapshot (contentSnapshot).
func (d *driver) captureVolume(ctx context.Context, r *record) (state info.Info, err error) {
	if err := d.forkVolume(ctx, r.ID, r.Source, ""); err != nil {
		return state, err
	}
	err = d.callDaemon(ctx, r.ID, snapshot.CaptureOptions{Name: contentSnapshot, Labels: r.labels(), Wait: true}, &state)
	return state, err
}

// pushSnapshot pushes the fork's snapshot (contentSnapshot) to the remote, under the id of the record.
func (d *driver) pushSnapshot(ctx context.Context, r *record) error {
	push := service.Push{Remote: d.credentials.urlWithCredentials(r.Remote, r.CredentialsID), Snapshots: []string{contentSnapshot}, As: r.ID}
	if d.callDaemon(ctx, r.ID, push, nil) == nil {
		return nil
	}
	if err := d.setUpRemote(ctx, r); err != nil {
		return err
	}

	return withRemoteCode(d.callDaemon(ctx, r.ID, push, nil))
}

// setUpRemote sets up a remote if it is new. It calls AddRemote, which also gives the remote a name. The driver uses
// remotes by their URLs, so setUpRemote removes the name.
func (d *driver) setUpRemote(ctx context.Context, r *record) error {
	add := service.AddRemote{Name: r.ID, URL: d.credentials.urlWithCredentials(r.Remote, r.CredentialsID)}
	if err := d.callDaemon(ctx, "", add, nil); err != nil {
		return withRemoteCode(err)
	}
	return d.callDaemon(ctx, "", service.RemoveRemote{Name: add.Name}, nil)
}

// checkRemote returns an error if no snapshot can be pushed to the remote, because the URL or the secrets are
// wrong. It returns nil for a remote that does not answer, since the remote may answer later.
func (d *driver) checkRemote(ctx context.Context, r *record) error {
	url := d.credentials.urlWithCredentials(r.Remote, r.CredentialsID)
	if _, known := d.answeredRemotes.Load(url); known || r.Remote == "" {
		return nil
	}

	err := d.setUpRemote(ctx, r)
	if status.Code(err) == codes.Unavailable {
		d.log.Warn("the remote of a volume does not answer", "volume", r.ID, "err", d.credentials.hidePaths(err.Error()))
		return nil
	}

	if err == nil {
		d.answeredRemotes.Store(url, true)
	}

	return err
}

// withRemoteCode gives the code Unavailable to an error of kind Failed, such as the error of a remote that does not
// answer. It returns other errors unchanged.
func withRemoteCode(err error) error {
	if hasKind(err, errs.Failed) {
		return status.Error(codes.Unavailable, err.Error())
	}
	return err
}

func (c controller) DeleteSnapshot(ctx context.Context, req *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	id := req.GetSnapshotId()
	if id == "" {
		return nil, invalidArgument("the snapshot_id is missing")
	}

	unlock, err := c.d.lockByID(id)
	if err != nil {
		return nil, err
	}
	defer unlock()

	r, err := c.d.findRecord(ctx, snapshotKind, id)
	if status.Code(err) == codes.NotFound {
		return &csi.DeleteSnapshotResponse{}, nil
	}
	if err == nil {
		err = c.d.credentials.renew(r, req.GetSecrets())
	}

	if err == nil && r.Remote != "" {
		remove := service.RemovePushed{Remote: c.d.credentials.urlWithCredentials(r.Remote, r.CredentialsID), Names: []string{id}}
		err = withRemoteCode(ignoreKind(errs.NotExist, c.d.callDaemon(ctx, "", remove, nil)))
	}

	if err == nil {
		err = c.d.deleteForkAndRecord(ctx, r)
	}

	return &csi.DeleteSnapshotResponse{}, err
}

func (c controller) ListSnapshots(ctx context.Context, req *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	resp := &csi.ListSnapshotsResponse{}
	var list []*record
	var err error
	if id := req.GetSnapshotId(); id == "" {
		list, resp.NextToken, err = c.d.recordPage(ctx, snapshotKind, req.GetSourceVolumeId(), req.GetStartingToken(), req.GetMaxEntries())
	} else if r, ferr := c.d.findRecord(ctx, snapshotKind, id); ferr == nil {
		list = []*record{r}
	} else if status.Code(ferr) != codes.NotFound {
		err = ferr
	}

	for _, r := range list {
		s, serr := c.d.snapshotMessage(ctx, r)
		if hasKind(serr, errs.NotExist) {
			continue // the snapshot was deleted after the list was read
		}
		if serr != nil {
			return nil, serr
		}
		resp.Entries = append(resp.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: s})
	}

	return resp, err
}

func (c controller) GetSnapshot(ctx context.Context, req *csi.GetSnapshotRequest) (*csi.GetSnapshotResponse, error) {
	if req.GetSnapshotId() == "" {
		return nil, invalidArgument("the snapshot_id is missing")
	}
	r, err := c.d.findRecord(ctx, snapshotKind, req.GetSnapshotId())
	if err != nil {
		return nil, err
	}

	s, err := c.d.snapshotMessage(ctx, r)
	return &csi.GetSnapshotResponse{Snapshot: s}, err
}
