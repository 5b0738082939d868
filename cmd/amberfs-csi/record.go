package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
)

// The kinds of records.
const (
	volumeKind   = "volume"
	snapshotKind = "snapshot"
	inlineKind   = "inline" // a volume that ends with its pod
)

// A record describes a volume or a snapshot. It is stored as the labels of a snapshot of main, to which no pod
// has access. It is written when the fork with the name ID is complete. A fork without a record was left by an
// interrupted request, and is made again.
type record struct {
	ID, Kind             string
	Source               string   // of a volume: the source from which it began; of a snapshot: the volume
	Remote               string   // the URL to which snapshots are pushed
	CredentialsID        string   // id of the credentials for Remote; "": the daemon uses its own
	SourceCredentialsIDs []string // ids of the credentials for the remotes of the sources
	Bytes                int64    // the capacity of a volume, the size of a snapshot
	info                 info.Info
}

// Labels of records. findRecord searches by idLabel, and takes the newest record.
const (
	idLabel                = "csi"
	kindLabel              = "csi.kind"
	sourceLabel            = "csi.source"
	remoteLabel            = "csi.remote"
	credentialsLabel       = "csi.login"
	sourceCredentialsLabel = "csi.logins"
	bytesLabel             = "csi.bytes"
)

func (r *record) labels() map[string]string {
	return map[string]string{
		idLabel: r.ID, kindLabel: r.Kind, sourceLabel: r.Source, remoteLabel: r.Remote, bytesLabel: strconv.FormatInt(r.Bytes, 10),
		credentialsLabel: r.CredentialsID, sourceCredentialsLabel: strings.Join(r.SourceCredentialsIDs, " "),
	}
}

func parseRecord(i info.Info) (*record, error) {
	bytes, err := strconv.ParseInt(i.Labels[bytesLabel], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the snapshot %s of main is no record of a volume: %w", i.Name, err)
	}
	return &record{
		ID: i.Labels[idLabel], Kind: i.Labels[kindLabel], Source: i.Labels[sourceLabel], Remote: i.Labels[remoteLabel],
		CredentialsID: i.Labels[credentialsLabel], SourceCredentialsIDs: strings.Fields(i.Labels[sourceCredentialsLabel]), Bytes: bytes, info: i,
	}, nil
}

const (
	volumePrefix   = "vol-"
	snapshotPrefix = "snap-"
)

// idForName returns the id of a volume or a snapshot. name is its name in the cluster, which may have any characters.
// Equal names have equal ids.
func idForName(prefix, name string) string {
	sum := sha256.Sum256([]byte(name))
	return prefix + hex.EncodeToString(sum[:16])
}

var idPattern = regexp.MustCompile(`^(vol|snap)-[0-9a-f]{32}$`)

// findRecord returns the record of an id. The error has the code NotFound if there is no record.
func (d *driver) findRecord(ctx context.Context, kind, id string) (*record, error) {
	notFoundErr := notFound("there is no %s %s on the node %s", kind, id, d.node)
	if !idPattern.MatchString(id) {
		return nil, notFoundErr
	}

	list, err := d.records(ctx, service.List{Limit: 1, Labels: map[string]string{idLabel: id}})
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 || list[0].Kind != kind:
		return nil, notFoundErr
	}

	return list[0], nil
}

// records returns records, newest first. It leaves out snapshots that were pulled from a remote, because other nodes
// have set their labels.
func (d *driver) records(ctx context.Context, l service.List) ([]*record, error) {
	var out []*record
	var list service.Snapshots
	l.Kind = info.KindManual
	if err := d.callDaemon(ctx, "", l, &list); err != nil {
		return nil, err
	}

	for _, i := range list.Snapshots {
		r, err := parseRecord(i)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}

	return out, nil
}

// writeRecord records that a fork is complete.
func (d *driver) writeRecord(ctx context.Context, r *record) error {
	return d.callDaemon(ctx, "", snapshot.CaptureOptions{Name: r.ID, Labels: r.labels(), Wait: true}, &r.info)
}

// rewriteRecord replaces a record. If it is interrupted, both records may exist; the newest is valid.
func (d *driver) rewriteRecord(ctx context.Context, r *record) error {
	labels := map[string]string{idLabel: r.ID}
	old, err := d.records(ctx, service.List{Labels: labels})
	if err != nil {
		return err
	}

	name := fmt.Sprintf("%s.%d", r.ID, r.info.Seq)
	if err := d.callDaemon(ctx, "", snapshot.CaptureOptions{Name: name, Labels: r.labels(), Wait: true}, &r.info); err != nil {
		return err
	}

	return d.removeRecords(ctx, old)
}

func (d *driver) removeRecords(ctx context.Context, list []*record) error {
	var names []string
	for _, r := range list {
		names = append(names, r.info.Name)
	}
	if len(names) == 0 {
		return nil
	}

	return ignoreKind(errs.NotExist, d.callDaemon(ctx, "", service.Remove{Names: names, Forget: true}, nil))
}

// deleteForkAndRecord deletes the fork of a record with all its forks and snapshots. Then it deletes the record, and
// the credentials that no other record needs.
func (d *driver) deleteForkAndRecord(ctx context.Context, r *record) error {
	if err := d.discardFork(ctx, r.ID); err != nil {
		return err
	}

	list, err := d.records(ctx, service.List{Labels: map[string]string{idLabel: r.ID}})
	if err == nil {
		err = d.removeRecords(ctx, list)
	}
	if err != nil {
		return err
	}

	return d.removeCredentials(ctx, r)
}

// discardFork deletes the fork with the name id, if it exists, with all its forks and snapshots.
func (d *driver) discardFork(ctx context.Context, id string) error {
	return ignoreKind(errs.NotExist, d.callDaemon(ctx, "", service.DeleteFork{Name: id, Discard: true, Forget: true}, nil))
}

// recordPage returns a page of the records of a kind, and the token of the next page. token is the token of this page,
// or "" for the first page. maxEntries is the largest number of records; 0 is no limit.
func (d *driver) recordPage(ctx context.Context, kind, source, token string, maxEntries int32) (list []*record, next string, err error) {
	l := service.List{Labels: map[string]string{kindLabel: kind}}
	if source != "" {
		l.Labels[sourceLabel] = source
	}
	if maxEntries < 0 {
		return nil, "", invalidArgument("max_entries is negative: %d", maxEntries)
	}

	if token != "" {
		if l.Before, err = strconv.ParseUint(token, 10, 64); err != nil || l.Before == 0 {
			return nil, "", status.Errorf(codes.Aborted, "%q is not a token of an earlier answer", token)
		}
	}

	if maxEntries > 0 {
		l.Limit = int(maxEntries) + 1
	}

	if list, err = d.records(ctx, l); err == nil && maxEntries > 0 && len(list) > int(maxEntries) {
		list = list[:maxEntries]
		next = strconv.FormatUint(list[maxEntries-1].info.Seq, 10)
	}

	return list, next, err
}
