package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

// A daemonClient calls operations of the daemon of a store.
type daemonClient struct{ store string }

// call calls an operation in a fork, or in main if fork is "".
func (d daemonClient) call(ctx context.Context, fork string, args, result any) error {
	c, err := client.Open(ctx, client.Target{Store: d.store, Workspace: fork, Command: "containerd-amberfs"})
	if err != nil {
		return fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err)
	}
	defer c.Close()

	err = c.Do(ctx, args, client.Streams{}, result)
	if hasKind(err, errs.Busy) {
		return fmt.Errorf("%w: %w", errdefs.ErrFailedPrecondition, err)
	}
	if hasKind(err, errs.NoSpace) || hasKind(err, errs.Quota) {
		return fmt.Errorf("%w: %w", errdefs.ErrResourceExhausted, err)
	}

	return err
}

func hasKind(err error, kind errs.Kind) bool { return err != nil && errs.ScriptKind(err) == kind }

// emptySnapshot is the name of the snapshot of main from which layers without a parent begin.
const emptySnapshot = "containerd-empty"

// prepareStore takes the snapshot with the name emptySnapshot, unless it exists.
func (d daemonClient) prepareStore(ctx context.Context) error {
	var size service.Sized
	if err := d.call(ctx, "", service.Size{}, &size); err != nil {
		return err
	}
	if size.Files > 0 {
		return errors.New("the store has files outside of forks; use one that is for containerd alone")
	}

	err := d.call(ctx, "", snapshot.CaptureOptions{Name: emptySnapshot, Pinned: true}, nil)
	if hasKind(err, errs.Exist) {
		return nil
	}

	return err
}

// makeFork makes a fork. If the fork exists, it was left by an interrupted request; then it is discarded and made
// again.
func (d daemonClient) makeFork(ctx context.Context, name, baseSnapshot string) error {
	err := d.call(ctx, "", snapshot.ForkOptions{Name: name, Snapshot: baseSnapshot, Discard: true}, nil)
	if !hasKind(err, errs.Exist) {
		return err
	}
	if err := d.discardFork(ctx, name); err != nil {
		return err
	}

	return d.call(ctx, "", snapshot.ForkOptions{Name: name, Snapshot: baseSnapshot, Discard: true}, nil)
}

// discardFork deletes a fork, if it exists, with all its snapshots.
func (d daemonClient) discardFork(ctx context.Context, name string) error {
	err := d.call(ctx, "", service.DeleteFork{Name: name, Discard: true, Forget: true}, nil)
	if hasKind(err, errs.NotExist) {
		return nil
	}
	return err
}

// captureFork takes a snapshot of a fork. It replaces an existing snapshot of that name, which an interrupted request
// or a program in the container took.
func (d daemonClient) captureFork(ctx context.Context, fork, name string) error {
	err := d.call(ctx, fork, snapshot.CaptureOptions{Name: name}, nil)
	if !hasKind(err, errs.Exist) {
		return err
	}

	names := []string{name}
	if err := d.call(ctx, fork, service.Pin{Names: names}, nil); err != nil {
		return err
	}
	if err := d.call(ctx, fork, service.Remove{Names: names, Forget: true}, nil); err != nil {
		return err
	}

	return d.call(ctx, fork, snapshot.CaptureOptions{Name: name}, nil)
}

// forkGrowth returns how many more files and bytes a fork has than its base.
func (d daemonClient) forkGrowth(ctx context.Context, fork string) (files, bytes int64, err error) {
	var present, base service.Sized
	if err := d.call(ctx, fork, service.Size{}, &present); err != nil {
		return 0, 0, err
	}
	if err := d.call(ctx, fork, service.Size{Name: "base"}, &base); err != nil {
		return 0, 0, err
	}

	return max(0, present.Files-base.Files), max(0, present.Bytes-base.Bytes), nil
}

func (d daemonClient) forkNames(ctx context.Context) (names []string, err error) {
	var list service.ForkList
	if err := d.call(ctx, "", service.Forks{}, &list); err != nil {
		return nil, err
	}
	for _, f := range list.Forks {
		names = append(names, f.Name)
	}

	return names, nil
}

func (d daemonClient) mountpoint(ctx context.Context) (string, error) {
	var st service.Status
	err := d.call(ctx, "", service.GetStatus{}, &st)
	return st.Mountpoint, err
}
