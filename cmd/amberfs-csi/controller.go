package main

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type controller struct {
	csi.UnimplementedControllerServer
	d *driver
}

func (controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	resp := &csi.ControllerGetCapabilitiesResponse{}

	for _, t := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csi.ControllerServiceCapability_RPC_GET_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_GET_SNAPSHOT,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: t}},
		})
	}

	return resp, nil
}

// volumeMessage returns the CSI message about the volume of a record.
func (d *driver) volumeMessage(r *record) *csi.Volume {
	return &csi.Volume{VolumeId: r.ID, CapacityBytes: r.Bytes, AccessibleTopology: []*csi.Topology{d.topology()}}
}

func (d *driver) topology() *csi.Topology {
	return &csi.Topology{Segments: map[string]string{topologyKey: d.node}}
}

// accessibleFrom reports whether a volume on this node is accessible from one of the topologies that a request
// accepts.
func (d *driver) accessibleFrom(requisite []*csi.Topology) bool {
	for _, t := range requisite {
		if node, ok := t.GetSegments()[topologyKey]; !ok || node == d.node {
			return true
		}
	}
	return len(requisite) == 0
}

func (c controller) ListVolumes(ctx context.Context, req *csi.ListVolumesRequest) (*csi.ListVolumesResponse, error) {
	list, next, err := c.d.recordPage(ctx, volumeKind, "", req.GetStartingToken(), req.GetMaxEntries())
	resp := &csi.ListVolumesResponse{NextToken: next}
	seen := map[string]bool{} // for listing each volume once: an interrupted rewrite leaves two records of a volume
	for _, r := range list {
		if !seen[r.ID] {
			resp.Entries = append(resp.Entries, &csi.ListVolumesResponse_Entry{Volume: c.d.volumeMessage(r)})
		}
		seen[r.ID] = true
	}

	return resp, err
}

func (c controller) ControllerGetVolume(ctx context.Context, req *csi.ControllerGetVolumeRequest) (*csi.ControllerGetVolumeResponse, error) {
	if req.GetVolumeId() == "" {
		return nil, invalidArgument("the volume_id is missing")
	}
	r, err := c.d.findRecord(ctx, volumeKind, req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	return &csi.ControllerGetVolumeResponse{
		Volume: c.d.volumeMessage(r), Status: &csi.ControllerGetVolumeResponse_VolumeStatus{},
	}, nil
}

func (c controller) GetCapacity(ctx context.Context, req *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	if topology := req.GetAccessibleTopology(); topology != nil && !c.d.accessibleFrom([]*csi.Topology{topology}) {
		return &csi.GetCapacityResponse{}, nil
	}
	if len(req.GetVolumeCapabilities()) > 0 && checkCapabilities(req.GetVolumeCapabilities()) != nil {
		return &csi.GetCapacityResponse{}, nil
	}

	st, err := c.d.daemonStatus(ctx)
	return &csi.GetCapacityResponse{AvailableCapacity: st.DiskFreeBytes}, err
}

func (c controller) ValidateVolumeCapabilities(ctx context.Context, req *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if req.GetVolumeId() == "" || len(req.GetVolumeCapabilities()) == 0 {
		return nil, invalidArgument("the volume_id or the volume_capabilities are missing")
	}
	if _, err := c.d.findRecord(ctx, volumeKind, req.GetVolumeId()); err != nil {
		return nil, err
	}
	if err := checkCapabilities(req.GetVolumeCapabilities()); err != nil {
		return &csi.ValidateVolumeCapabilitiesResponse{Message: status.Convert(err).Message()}, nil
	}

	return &csi.ValidateVolumeCapabilitiesResponse{Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{
		VolumeContext: req.GetVolumeContext(), VolumeCapabilities: req.GetVolumeCapabilities(), Parameters: req.GetParameters(),
	}}, nil
}

// ControllerExpandVolume changes the capacity, which is a limit of the policy. The node has no work to do.
func (c controller) ControllerExpandVolume(ctx context.Context, req *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if req.GetVolumeId() == "" || req.GetCapacityRange() == nil {
		return nil, invalidArgument("the volume_id or the capacity_range is missing")
	}
	unlock, err := c.d.lockByID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	defer unlock()

	r, err := c.d.findRecord(ctx, volumeKind, req.GetVolumeId())
	if err != nil {
		return nil, err
	}

	bytes, err := c.d.chooseCapacity(ctx, req.GetCapacityRange(), r.Bytes)
	if err != nil {
		return nil, err
	}

	if bytes > r.Bytes {
		r.Bytes = bytes
		err = c.d.rewriteRecord(ctx, r)
	}

	if err == nil { // even if an earlier request recorded the capacity, because it may have been interrupted before this step
		err = c.d.setCapacityLimit(ctx, r)
	}

	return &csi.ControllerExpandVolumeResponse{CapacityBytes: r.Bytes}, err
}

// chooseCapacity chooses the smallest capacity in the requested range that is not below minimum, in bytes. It fails if the
// policy of the store does not allow a fork so many bytes.
func (d *driver) chooseCapacity(ctx context.Context, requested *csi.CapacityRange, minimum int64) (int64, error) {
	bytes, limit := requested.GetRequiredBytes(), requested.GetLimitBytes()
	if bytes < 0 || limit < 0 || limit > 0 && limit < bytes {
		return 0, invalidArgument("the capacity_range from %d to %d is empty", bytes, limit)
	}

	bytes = max(bytes, minimum)
	if limit > 0 && bytes > limit {
		return 0, status.Errorf(codes.OutOfRange, "the volume needs %d bytes, and the limit is %d", bytes, limit)
	}

	allowed, err := d.forkLimitBytes(ctx)
	if err == nil && allowed > 0 && bytes > allowed {
		err = status.Errorf(codes.OutOfRange, "the policy of the store allows a volume %d bytes (forks.unshared_bytes), not %d", allowed, bytes)
	}

	return bytes, err
}
