package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Parameters of a StorageClass.
const (
	fromParameter   = "from"   // the snapshot of main, or REMOTE@SNAPSHOT, from which a volume begins
	remoteParameter = "remote" // the URL to which snapshots are pushed, and from which snapshots of other nodes are read
	policyParameter = "policy" // a JSON merge patch for the policy of the volume
	ownerParameter  = "owner"  // UID or UID:GID of the owner of the volume's root, who may restore the volume
	ttlParameter    = "ttl"    // time after which the volume ends, without a snapshot of its last state
)

// filterParameters returns the known parameters. It ignores the parameters of Kubernetes itself, and refuses others.
func filterParameters(given map[string]string, known ...string) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range given {
		switch {
		case slices.Contains(known, k):
			out[k] = v
		case !strings.HasPrefix(k, "csi.storage.k8s.io/"):
			return nil, invalidArgument("there is no parameter %q; known are %s", k, strings.Join(known, ", "))
		}
	}

	return out, nil
}

// checkCapabilities returns an error for capabilities that a directory on one node cannot offer.
func checkCapabilities(capabilities []*csi.VolumeCapability) error {
	for _, c := range capabilities {
		switch c.GetAccessMode().GetMode() {
		case csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY,
			csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER:
		default:
			return invalidArgument("a volume is accessible from one node, so the access mode cannot be %s", c.GetAccessMode().GetMode())
		}
		if c.GetMount() == nil {
			return invalidArgument("a volume is a directory, and not a block device")
		}
		if _, err := mountAttributes(c.GetMount().GetMountFlags()); err != nil {
			return err
		}
	}
	return nil
}

// CreateVolume makes a fork: of main, of a snapshot, or of another volume.
func (c controller) CreateVolume(ctx context.Context, req *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if req.GetName() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, invalidArgument("the name or the volume_capabilities are missing")
	}
	p, err := filterParameters(req.GetParameters(), fromParameter, remoteParameter, policyParameter, ownerParameter, ttlParameter)
	if err == nil {
		_, _, oerr := parseOwner(p[ownerParameter])
		err = cmp.Or(checkCapabilities(req.GetVolumeCapabilities()), checkPolicy(p[policyParameter]), oerr)
	}
	if err != nil {
		return nil, err
	}
	if !c.d.accessibleFrom(req.GetAccessibilityRequirements().GetRequisite()) {
		return nil, status.Errorf(codes.ResourceExhausted, "this driver makes volumes on the node %s only", c.d.node)
	}

	r := &record{ID: idForName(volumePrefix, req.GetName()), Kind: volumeKind, Remote: p[remoteParameter]}
	unlock, err := c.d.lockByID(r.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()

	src, err := parseSource(req.GetVolumeContentSource(), p)
	if err != nil {
		return nil, err
	}

	r.Source = src.name()
	switch existing, err := c.d.findRecord(ctx, volumeKind, r.ID); {
	case err == nil:
		r, err = existing, checkExistingVolume(existing, r, req.GetCapacityRange())
		if err == nil {
			err = c.d.credentials.renew(r, req.GetSecrets())
		}
		if err != nil {
			return nil, err
		}

	case status.Code(err) != codes.NotFound:
		return nil, err
	default:
		err := c.d.withCredentials(ctx, r, req.GetSecrets(), func() error {
			return c.d.makeVolume(ctx, r, src, req.GetCapacityRange(), p)
		})
		if err != nil {
			return nil, err
		}
	}

	v := c.d.volumeMessage(r)
	v.ContentSource = req.GetVolumeContentSource()
	return &csi.CreateVolumeResponse{Volume: v}, nil
}

// checkExistingVolume returns an error if the existing volume with the name of r differs from the requested volume.
func checkExistingVolume(existing, r *record, requested *csi.CapacityRange) error {
	limit := requested.GetLimitBytes()
	if existing.Source != r.Source || existing.Remote != r.Remote || existing.Bytes < requested.GetRequiredBytes() || limit > 0 && existing.Bytes > limit {
		return status.Errorf(codes.AlreadyExists, "the volume %s has the name, with %d bytes, the source %q and the remote %q",
			existing.ID, existing.Bytes, existing.Source, existing.Remote)
	}
	return nil
}

// makeVolume makes the fork of a volume, and writes the volume's record.
func (d *driver) makeVolume(ctx context.Context, r *record, src source, requested *csi.CapacityRange, p map[string]string) error {
	if err := d.inheritCredentials(ctx, r, src); err != nil {
		return err
	}
	if err := d.checkRemote(ctx, r); err != nil {
		return err
	}

	size, err := d.forkSource(ctx, r.ID, src.withRemoteURL(d.credentials.urlWithCredentials(r.Remote, r.CredentialsID)), p[ttlParameter])
	if err != nil {
		return err
	}
	if r.Bytes, err = d.chooseCapacity(ctx, requested, size); err == nil && p[ownerParameter] != "" {
		err = d.setOwner(ctx, r.ID, p[ownerParameter])
	}
	if err == nil && p[policyParameter] != "" {
		err = d.callDaemon(ctx, r.ID, service.SetPolicy{Patch: json.RawMessage(p[policyParameter])}, nil)
	}
	if err == nil && requested.GetRequiredBytes() > 0 {
		err = d.setCapacityLimit(ctx, r)
	}
	if err == nil {
		err = d.writeRecord(ctx, r)
	}
	if err != nil {
		_ = d.discardFork(ctx, r.ID) // after an error, the next request discards the fork
	}

	return err
}

// parseOwner parses the parameter owner. -1 means that the owner or group is not changed.
func parseOwner(text string) (uid, gid int, err error) {
	if text == "" {
		return -1, -1, nil
	}
	user, group, both := strings.Cut(text, ":")
	u, uerr := strconv.ParseUint(user, 10, 31)
	g, gerr := strconv.ParseUint(group, 10, 31)
	if uerr != nil || both && gerr != nil {
		return -1, -1, invalidArgument("the owner of a volume is UID or UID:GID, not %q", text)
	}
	if !both {
		return int(u), -1, nil
	}

	return int(u), int(g), nil
}

// setOwner sets the owner of the root of a volume. Only the owner may restore the volume. An fsGroup later
// changes only the group.
func (d *driver) setOwner(ctx context.Context, id, owner string) error {
	uid, gid, err := parseOwner(owner)
	if err != nil {
		return err
	}

	st, err := d.daemonStatus(ctx)
	if err != nil {
		return err
	}
	if err := os.Lchown(filepath.Join(st.Mountpoint, forkRoot(id)), uid, gid); err != nil {
		return status.Errorf(codes.Unavailable, "the volume %s cannot get its owner: %v", id, err)
	}

	return nil
}

// setCapacityLimit sets the limit of a volume's fork to the volume's capacity.
func (d *driver) setCapacityLimit(ctx context.Context, r *record) error {
	return d.callDaemon(ctx, r.ID, service.SetPolicy{Patch: fmt.Appendf(nil, `{"unshared_bytes":%d}`, r.Bytes)}, nil)
}

// checkPolicy returns an error if patch is not a policy. It is called before the volume is made.
func checkPolicy(patch string) error {
	if patch == "" {
		return nil
	}
	_, err := policy.Parse([]byte(patch))
	return err
}

// forkLimitBytes returns the number of unshared bytes that the policy of main allows for a fork; 0 is no limit.
func (d *driver) forkLimitBytes(ctx context.Context) (int64, error) {
	var p policy.Policy
	err := d.callDaemon(ctx, "", service.Policy{}, &p)
	return p.Forks.UnsharedBytes, err
}

func (c controller) DeleteVolume(ctx context.Context, req *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalidArgument("the volume_id is missing")
	}
	return &csi.DeleteVolumeResponse{}, c.d.deleteVolume(ctx, volumeKind, req.GetVolumeId())
}

// deleteVolume deletes a volume of a kind, if it exists. It fails if the volume is published.
func (d *driver) deleteVolume(ctx context.Context, kind, id string) error {
	unlock, err := d.lockByID(id)
	if err != nil {
		return err
	}
	defer unlock()

	r, err := d.findRecord(ctx, kind, id)
	if err != nil {
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	}

	published, err := publications(id)
	if err != nil {
		return err
	}
	if len(published) > 0 {
		return status.Errorf(codes.FailedPrecondition, "the volume %s is published at %s", id, published[0].Mountpoint)
	}

	return d.deleteForkAndRecord(ctx, r)
}
