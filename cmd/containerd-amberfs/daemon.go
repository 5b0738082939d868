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

// A daemon calls operations of the daemon of a store.
type daemon struct{ store string }

// do calls an operation in a fork, or in main if fork is "".
func (d daemon) do(ctx context.Context, fork string, args, result any) error {
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

// empty is the name of the snapshot of main from which layers without a parent begin.
const empty = "containerd-empty"

// prepare takes the snapshot with the name empty, unless it exists.
func (d daemon) prepare(ctx context.Context) error {
	var size service.Sized
	if err := d.do(ctx, "", service.Size{}, &size); err != nil {
		return err
	}
	if size.Files > 0 {
		return errors.New("the store has files outside of forks; use one that is for containerd alone")
	}

	err := d.do(ctx, "", snapshot.CaptureOptions{Name: empty, Pinned: true}, nil)
	if hasKind(err, errs.Exist) {
		return nil
	}

	return err
}

// fork makes a fork. If the fork exists, it was left by an interrupted request; then it is discarded and made
// again.
func (d daemon) fork(ctx context.Context, name, from string) error {
	err := d.do(ctx, "", snapshot.ForkOptions{Name: name, Snapshot: from, Discard: true}, nil)
	if !hasKind(err, errs.Exist) {
		return err
	}
	if err := d.discard(ctx, name); err != nil {
		return err
	}

	return d.do(ctx, "", snapshot.ForkOptions{Name: name, Snapshot: from, Discard: true}, nil)
}

func (d daemon) discard(ctx context.Context, name string) error {
	err := d.do(ctx, "", service.DeleteFork{Name: name, Discard: true, Forget: true}, nil)
	if hasKind(err, errs.NotExist) {
		return nil
	}
	return err
}

// capture takes a snapshot of a fork. It replaces an existing snapshot of that name, which an interrupted request
// or a program in the container took.
func (d daemon) capture(ctx context.Context, fork, name string) error {
	err := d.do(ctx, fork, snapshot.CaptureOptions{Name: name}, nil)
	if !hasKind(err, errs.Exist) {
		return err
	}

	names := []string{name}
	if err := d.do(ctx, fork, service.Pin{Names: names}, nil); err != nil {
		return err
	}
	if err := d.do(ctx, fork, service.Remove{Names: names, Forget: true}, nil); err != nil {
		return err
	}

	return d.do(ctx, fork, snapshot.CaptureOptions{Name: name}, nil)
}

// growth returns how many more files and bytes a fork has than its base.
func (d daemon) growth(ctx context.Context, fork string) (files, bytes int64, err error) {
	var now, base service.Sized
	if err := d.do(ctx, fork, service.Size{}, &now); err != nil {
		return 0, 0, err
	}
	if err := d.do(ctx, fork, service.Size{Name: "base"}, &base); err != nil {
		return 0, 0, err
	}

	return max(0, now.Files-base.Files), max(0, now.Bytes-base.Bytes), nil
}

func (d daemon) forks(ctx context.Context) (names []string, err error) {
	var list service.ForkList
	if err := d.do(ctx, "", service.Forks{}, &list); err != nil {
		return nil, err
	}
	for _, f := range list.Forks {
		names = append(names, f.Name)
	}

	return names, nil
}

func (d daemon) mountpoint(ctx context.Context) (string, error) {
	var st service.Status
	err := d.do(ctx, "", service.GetStatus{}, &st)
	return st.Mountpoint, err
}
