package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/info"
)

type node struct {
	csi.UnimplementedNodeServer
	d *driver
}

func (n node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: n.d.node, AccessibleTopology: n.d.topology()}, nil
}

func (node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	resp := &csi.NodeGetCapabilitiesResponse{}
	for _, t := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	} {
		resp.Capabilities = append(resp.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: t}},
		})
	}

	return resp, nil
}

// ephemeralKey is the key in the kubelet's volume context that is set for an inline volume.
const ephemeralKey = "csi.storage.k8s.io/ephemeral"

// NodePublishVolume binds a volume to a directory. It first makes the volume if the volume is inline.
func (n node) NodePublishVolume(ctx context.Context, req *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	id, target, capability := req.GetVolumeId(), req.GetTargetPath(), req.GetVolumeCapability()
	if id == "" || target == "" || capability == nil {
		return nil, invalidArgument("the volume_id, the target_path or the volume_capability is missing")
	}
	if !filepath.IsAbs(target) {
		return nil, invalidArgument("the target_path is not absolute: %s", target)
	}
	if err := checkCapabilities([]*csi.VolumeCapability{capability}); err != nil {
		return nil, err
	}

	if req.GetVolumeContext()[ephemeralKey] == "true" {
		if len(req.GetSecrets()) > 0 {
			return nil, invalidArgument("there are secrets, and an inline volume has no remote")
		}
		var err error
		if id, err = n.makeInlineVolume(ctx, id, req.GetVolumeContext()); err != nil {
			return nil, err
		}
	} else {
		r, err := n.d.findRecord(ctx, volumeKind, id)
		if err == nil {
			err = n.d.credentials.renew(r, req.GetSecrets())
		}
		if err != nil {
			return nil, err
		}
	}

	unlock, err := n.d.lockByID(id)
	if err != nil {
		return nil, err
	}
	defer unlock()

	return &csi.NodePublishVolumeResponse{}, n.publish(ctx, id, target, capability, req.GetReadonly())
}

// publish binds a volume to the directory target with the access that the request asks for.
func (n node) publish(ctx context.Context, id, target string, c *csi.VolumeCapability, readOnly bool) error {
	attributes, err := mountAttributes(c.GetMount().GetMountFlags())
	if err != nil {
		return err
	}

	mode := c.GetAccessMode().GetMode()
	if readOnly || mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY {
		attributes |= readOnlyAttribute
	}

	if mode == csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER {
		published, err := publications(id)
		if err != nil {
			return err
		}

		for _, p := range published {
			if p.Mountpoint != target {
				return status.Errorf(codes.FailedPrecondition, "the volume %s has its one writer at %s", id, p.Mountpoint)
			}
		}
	}

	st, err := n.d.daemonStatus(ctx)
	if err != nil {
		return err
	}

	return bindVolume(filepath.Join(st.Mountpoint, forkRoot(id)), target, id, attributes)
}

// NodeUnpublishVolume ends a publication. If the volume is inline, it also ends the volume.
func (n node) NodeUnpublishVolume(ctx context.Context, req *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	id, target := req.GetVolumeId(), req.GetTargetPath()
	if id == "" || target == "" {
		return nil, invalidArgument("the volume_id or the target_path is missing")
	}

	inline := inlineID(id)
	for _, id := range []string{id, inline} {
		if err := unbindVolume(target, id); err != nil {
			return nil, err
		}
	}

	if err := removeTargetDir(target); err != nil {
		return nil, err
	}

	return &csi.NodeUnpublishVolumeResponse{}, n.d.deleteVolume(ctx, inlineKind, inline)
}

func inlineID(name string) string { return idForName(volumePrefix, "inline "+name) }

// inlineLabel and inlineValue are the key and the value of the label of the snapshots from which inline volumes may
// begin. The author of any pod can choose one of these snapshots, so an administrator sets the label.
const (
	inlineLabel = "csi.inline"
	inlineValue = "yes"
)

// inlineSource returns the permanent name cp-N of a snapshot of main that an administrator has labelled for inline
// volumes. name must be the snapshot's exact name, because latest, cp-N and digits of an id could lead to a
// snapshot without the label.
func (n node) inlineSource(ctx context.Context, name string) (string, error) {
	var list service.Snapshots
	l := service.List{Kind: info.KindManual, Labels: map[string]string{inlineLabel: inlineValue}}
	if err := n.d.callDaemon(ctx, "", l, &list); err != nil {
		return "", err
	}

	for _, i := range list.Snapshots {
		if i.Name == name {
			return fmt.Sprintf("cp-%d", i.Seq), nil
		}
	}

	return "", invalidArgument("no snapshot of main with the label %s=%s has the name %q (attribute %s)", inlineLabel, inlineValue, name, fromParameter)
}

// makeInlineVolume makes the inline volume of a pod, unless the volume exists.
func (n node) makeInlineVolume(ctx context.Context, name string, volumeContext map[string]string) (string, error) {
	p, err := filterParameters(volumeContext, fromParameter, ownerParameter)
	if err != nil {
		return "", err
	}

	r := &record{ID: inlineID(name), Kind: inlineKind, Source: p[fromParameter]}
	unlock, err := n.d.lockByID(r.ID)
	if err != nil {
		return "", err
	}
	defer unlock()

	_, err = n.d.findRecord(ctx, inlineKind, r.ID)
	if status.Code(err) != codes.NotFound {
		return r.ID, err
	}

	from, err := n.inlineSource(ctx, r.Source)
	if err != nil {
		return "", err
	}

	return r.ID, n.d.makeVolume(ctx, r, source{baseSnapshot: from}, nil, p)
}

func (n node) NodeGetVolumeStats(ctx context.Context, req *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	id, path := req.GetVolumeId(), req.GetVolumePath()
	if id == "" || path == "" {
		return nil, invalidArgument("the volume_id or the volume_path is missing")
	}
	if _, err := n.d.findRecord(ctx, volumeKind, id); err != nil {
		return nil, err
	}

	publication, err := publicationAt(path, id)
	if err != nil {
		return nil, err
	}
	if publication == nil {
		return nil, notFound("the volume %s is not published at %s", id, path)
	}

	var st service.Status
	if err := n.d.callDaemon(ctx, id, service.GetStatus{}, &st); err != nil {
		return nil, err
	}

	used, free := st.LogicalBytes, st.DiskFreeBytes
	if st.UnsharedLimit > 0 { // the number that df shows in the volume: bytes including the history, without shared bytes
		used = st.UnsharedBytes
		free = min(free, max(0, st.UnsharedLimit-used))
	}

	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: used + free, Available: free, Used: used},
		{Unit: csi.VolumeUsage_INODES, Used: st.Files},
	}}, nil
}
