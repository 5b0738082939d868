package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/moby/sys/mountinfo"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// runInWorkspace runs a program in the workspace of a location, or in a fork of it. A new fork begins with baseSnapshot
// or, for "", with the present state.
func runInWorkspace(ctx context.Context, a *app, p locate.Location, o *runOptions, baseSnapshot string) error {
	c := &o.sandbox
	dir, err := a.commandDir()
	if err != nil {
		return err
	}

	root, ok := p.Root()
	if c.Fork != "" {
		if !ok {
			return errs.Fail(errs.Invalid, "the root of the workspace is not mounted here")
		}
		dir = filepath.Join(root, naming.ForksDir, c.Fork)
	}

	fork, _, err := o.restrictions.forDir(root)
	if err := errors.Join(err, o.restrictions.checkAllFound()); err != nil {
		return err
	}

	fork.Name, fork.Snapshot = c.Fork, baseSnapshot
	if err := o.task.prepare(ctx, a, p, fork); err != nil {
		return err
	}

	runtime.LockOSThread() // never unlocked: commandInWorkspace may set no_new_privs for this thread, which cannot be undone
	cmd, ready, err := commandInWorkspace(ctx, a, p.InFork(c.Fork), dir, c)
	if err != nil {
		return err
	}

	status, err := sandbox.RunInForeground(ctx, cmd, ready)
	if err == nil {
		err = o.task.finish(ctx, a, p.InFork(c.Fork))
	}

	return a.statusError(status, err)
}

// commandInWorkspace returns the command of a run in the workspace p, which is mounted at dir. It may set no_new_privs
// for this thread. The caller calls ready after it has started the command.
func commandInWorkspace(ctx context.Context, a *app, p locate.Location, dir string, c *sandbox.Config) (cmd *exec.Cmd, ready func(), err error) {
	if !c.ForkIsRoot {
		cmd = exec.Command(c.Command[0], c.Command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
		return cmd, func() {}, sandbox.NoNewPrivileges()
	}

	image, err := imageOf(ctx, a, p)
	if err != nil {
		return nil, nil, err
	}

	noteOnlyRoot(a, "an ordinary user has mounted it. With STORE, while that is not mounted, run --root maps other ids too")
	return sandbox.CommandInRoot(context.WithoutCancel(ctx), dir, c.Command, image)
}

// storeLocation returns the location of the workspace main of a store. point is the mount point of the store.
func storeLocation(store, point string) locate.Location {
	return locate.Location{Mount: &mountinfo.Info{Mountpoint: point}, Store: store}
}

// A task describes what a run does in its workspace before and after the program.
type task struct {
	actor         string // the actor of the program's changes; "" for none
	snapshotAfter string // the name of a snapshot to take at the end; "" for none
	printsChanges bool   // the changes of the program are printed at the end
}

// forOtherDir returns the task of another directory of the run.
func (t *task) forOtherDir() task { return task{actor: t.actor, printsChanges: t.printsChanges} }

// prepare creates the fork, unless it exists or its name is "", and registers the actor. It adds the restrictions in
// the argument fork to the policy of the fork or, without a fork, of the workspace.
func (t *task) prepare(ctx context.Context, a *app, p locate.Location, fork snapshot.ForkOptions) error {
	if fork.Name != "" {
		err := a.call(ctx, p, fork, nil)
		if err != nil && errs.ScriptKind(err) != errs.Exist {
			return err
		}
	}

	workspace := p.InFork(fork.Name)
	if err := restrictWorkspace(ctx, a, workspace, fork); err != nil {
		return err
	}
	if t.snapshotAfter != "" && a.call(ctx, workspace, service.Show{Name: t.snapshotAfter}, nil) == nil {
		return errs.Fail(errs.Exist, "snapshot %q exists", t.snapshotAfter).WithHint("choose another name after --snapshot-after")
	}

	if t.actor != "" {
		err := sandbox.AdoptOrphans()
		if err == nil {
			err = a.call(ctx, p, service.Actor{Name: t.actor}, nil)
		}
		if err != nil {
			return err
		}
	}

	if !t.printsChanges {
		return nil
	}

	return a.call(ctx, workspace, service.Changed{Look: lookName()}, nil)
}

// imageOf returns the configuration of the image from which a workspace was imported, nil for none.
func imageOf(ctx context.Context, a *app, p locate.Location) (*info.Image, error) {
	var found service.FoundImage
	err := a.call(ctx, p, service.GetImage{}, &found)
	return found.Image, err
}

// lookName returns the value of service.Changed.Look for this run.
func lookName() string { return "run/" + strconv.Itoa(os.Getpid()) }

// reportChanges prints what the program of a run changed in a workspace, below a title.
func reportChanges(ctx context.Context, a *app, p locate.Location, title string) error {
	args := service.Changed{Look: lookName(), ForAgent: true}
	var done service.WhatChanged
	if err := a.call(ctx, p, args, &done); err != nil {
		return err
	}
	if text := service.OpOf(args).Text.Text(args, &done); text != "" {
		fmt.Fprint(a.stderr, title+text)
	}

	return nil
}

// finish reports what the program of a run changed in a workspace, and takes the snapshot of --snapshot-after. A signal
// that ended the program does not interrupt it.
func (t *task) finish(ctx context.Context, a *app, p locate.Location) error {
	ctx = context.WithoutCancel(ctx)
	if t.printsChanges {
		if err := reportChanges(ctx, a, p, ""); err != nil {
			return err
		}
	}

	if t.snapshotAfter == "" {
		return nil
	}

	var made info.Info
	if err := a.call(ctx, p, snapshot.CaptureOptions{Name: t.snapshotAfter, Wait: true}, &made); err != nil {
		return err
	}

	a.note("snapshot %s created: %s", made.Name, made.ID)
	return nil
}
