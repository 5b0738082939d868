package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/core/snapshots/storage"
	"github.com/containerd/log"

	"github.com/amberfs/amberfs/snapshot/naming"
)

// A snapshotter stores the names, parents and labels of snapshots in the MetaStore, like containerd's own
// snapshotters, and the files of each snapshot in a fork. The fork of a committed snapshot has a snapshot with
// the name layerSnapshot, from which the forks of the children begin.
type snapshotter struct {
	daemonClient
	meta *storage.MetaStore
}

var (
	_ snapshots.Snapshotter = (*snapshotter)(nil)
	_ snapshots.Cleaner     = (*snapshotter)(nil)
)

// layerSnapshot is the name of the snapshot in the fork of a committed snapshot.
const layerSnapshot = "layer"

const forkPrefix = "sn-"

func forkName(id string) string { return forkPrefix + id }

func newSnapshotter(ctx context.Context, store, root string) (*snapshotter, error) {
	s := &snapshotter{daemonClient: daemonClient{store}}
	if err := s.prepareStore(ctx); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}

	var err error
	s.meta, err = storage.NewMetaStore(filepath.Join(root, "metadata.db"))
	return s, err
}

func (s *snapshotter) Close() error { return s.meta.Close() }

func (s *snapshotter) Stat(ctx context.Context, key string) (info snapshots.Info, err error) {
	err = s.meta.WithTransaction(ctx, false, func(ctx context.Context) error {
		_, info, _, err = storage.GetInfo(ctx, key)
		return err
	})
	return info, err
}

func (s *snapshotter) Update(ctx context.Context, info snapshots.Info, fields ...string) (_ snapshots.Info, err error) {
	err = s.meta.WithTransaction(ctx, true, func(ctx context.Context) error {
		info, err = storage.UpdateInfo(ctx, info, fields...)
		return err
	})
	return info, err
}

func (s *snapshotter) Walk(ctx context.Context, fn snapshots.WalkFunc, filters ...string) error {
	return s.meta.WithTransaction(ctx, false, func(ctx context.Context) error {
		return storage.WalkInfo(ctx, fn, filters...)
	})
}

// Usage returns the usage of a snapshot. For a committed snapshot, this is the usage that Commit stored. For an
// active snapshot, it is the growth of the fork.
func (s *snapshotter) Usage(ctx context.Context, key string) (usage snapshots.Usage, err error) {
	var id string
	var info snapshots.Info
	err = s.meta.WithTransaction(ctx, false, func(ctx context.Context) error {
		id, info, usage, err = storage.GetInfo(ctx, key)
		return err
	})
	if err == nil && info.Kind == snapshots.KindActive {
		usage.Inodes, usage.Size, err = s.forkGrowth(ctx, forkName(id))
	}

	return usage, err
}

func (s *snapshotter) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	return s.createSnapshot(ctx, snapshots.KindActive, key, parent, opts)
}

func (s *snapshotter) View(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	return s.createSnapshot(ctx, snapshots.KindView, key, parent, opts)
}

// createSnapshot makes the fork of a snapshot before it commits the metadata of the snapshot.
func (s *snapshotter) createSnapshot(ctx context.Context, kind snapshots.Kind, key, parent string, opts []snapshots.Opt) (mounts []mount.Mount, err error) {
	err = s.meta.WithTransaction(ctx, true, func(ctx context.Context) error {
		sn, err := storage.CreateSnapshot(ctx, kind, key, parent, opts...)
		if err != nil {
			return err
		}

		if hasFork(sn) {
			from := emptySnapshot
			if len(sn.ParentIDs) > 0 {
				from = forkName(sn.ParentIDs[0]) + "/" + layerSnapshot
			}
			if err := s.makeFork(ctx, forkName(sn.ID), from); err != nil {
				return err
			}
		}

		mounts, err = s.bindMounts(ctx, sn)
		return err
	})
	return mounts, err
}

// hasFork reports whether a snapshot has a fork of its own. A view with a parent does not: it shows the parent's
// fork.
func hasFork(sn storage.Snapshot) bool {
	return sn.Kind == snapshots.KindActive || len(sn.ParentIDs) == 0
}

// bindMounts returns the bind mount that shows the files of a snapshot.
func (s *snapshotter) bindMounts(ctx context.Context, sn storage.Snapshot) ([]mount.Mount, error) {
	mountpoint, err := s.mountpoint(ctx)
	if err != nil {
		return nil, err
	}

	id, access := sn.ID, "rw"
	if sn.Kind == snapshots.KindView {
		access = "ro"
	}
	if !hasFork(sn) {
		id = sn.ParentIDs[0]
	}

	return []mount.Mount{{
		Type: "bind", Source: filepath.Join(mountpoint, naming.ForksDir, forkName(id)), Options: []string{"rbind", access},
	}}, nil
}

func (s *snapshotter) Mounts(ctx context.Context, key string) (mounts []mount.Mount, err error) {
	err = s.meta.WithTransaction(ctx, false, func(ctx context.Context) error {
		sn, err := storage.GetSnapshot(ctx, key)
		if err == nil {
			mounts, err = s.bindMounts(ctx, sn)
		}

		return err
	})
	return mounts, err
}

// Commit keeps the present state of an active snapshot for its children.
func (s *snapshotter) Commit(ctx context.Context, name, key string, opts ...snapshots.Opt) error {
	return s.meta.WithTransaction(ctx, true, func(ctx context.Context) error {
		id, _, _, err := storage.GetInfo(ctx, key)
		if err != nil {
			return err
		}

		var usage snapshots.Usage
		if usage.Inodes, usage.Size, err = s.forkGrowth(ctx, forkName(id)); err != nil {
			return err
		}
		if _, err := storage.CommitActive(ctx, key, name, usage, opts...); err != nil {
			return fmt.Errorf("committing %s: %w", key, err)
		}

		return s.captureFork(ctx, forkName(id), layerSnapshot)
	})
}

// Remove removes a snapshot. If the snapshot's fork cannot be deleted now, Cleanup deletes it later.
func (s *snapshotter) Remove(ctx context.Context, key string) error {
	var id string
	err := s.meta.WithTransaction(ctx, true, func(ctx context.Context) (err error) {
		id, _, err = storage.Remove(ctx, key)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.discardFork(ctx, forkName(id)); err != nil {
		log.G(ctx).WithError(err).Warnf("the fork %s stays until the next garbage collection", forkName(id))
	}

	return nil
}

// Cleanup deletes the forks of removed snapshots. It holds a write transaction, so that no new snapshots are made
// during the cleanup.
func (s *snapshotter) Cleanup(ctx context.Context) error {
	return s.meta.WithTransaction(ctx, true, func(ctx context.Context) error {
		known, err := storage.IDMap(ctx)
		if err != nil {
			return err
		}

		names, err := s.forkNames(ctx)
		if err != nil {
			return err
		}

		for _, name := range names {
			id, ours := strings.CutPrefix(name, forkPrefix)
			if _, exists := known[id]; ours && !exists {
				if err := s.discardFork(ctx, name); err != nil {
					log.G(ctx).WithError(err).Warnf("the fork %s stays until the next garbage collection", name)
				}
			}
		}

		return nil
	})
}
