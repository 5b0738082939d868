package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// runHere runs a program in the workspace of the working directory, or in a fork of it.
func runHere(ctx context.Context, a *app, p locate.Location, c sandbox.Config, from string) error {
	dir, err := a.cwd()
	if err != nil {
		return err
	}

	if c.Fork != "" {
		root, ok := p.Root()
		if !ok {
			return errs.Fail(errs.Invalid, "the root of the workspace is not mounted here")
		}
		dir = filepath.Join(root, naming.ForksDir, c.Fork)
	}

	if err := prepareProgram(ctx, a, p, &c, from); err != nil {
		return err
	}

	runtime.LockOSThread() // until the end: the thread has given up its rights
	var cmd *exec.Cmd
	ready := func() {}
	if c.Root {
		noteOnlyRoot(a, "an ordinary user has mounted it. With STORE, while that is not mounted, run --root maps other ids too")
		cmd, ready, err = sandbox.InRoot(context.WithoutCancel(ctx), dir, c.Command, c.Image)
	} else {
		cmd, err = exec.Command(c.Command[0], c.Command[1:]...), sandbox.NoNewPrivileges()
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
	}
	if err != nil {
		return err
	}

	status, err := sandbox.Foreground(ctx, cmd, ready)
	if err == nil {
		err = afterProgram(ctx, a, p, c)
	}

	return a.statusOf(status, err)
}

// prepareProgram prepares the program of a run: it creates the fork, of the snapshot from if that
// is not "", and registers the actor.
func prepareProgram(ctx context.Context, a *app, p locate.Location, c *sandbox.Config, from string) error {
	if c.Fork != "" {
		err := a.ask(ctx, p, snapshot.ForkOptions{Name: c.Fork, Snapshot: from, Hide: c.Hide, HideEmpty: c.HideEmpty, ReadOnly: c.ReadOnly}, nil)
		if err != nil && errs.ScriptKind(err) != errs.Exist {
			return err
		}
	}
	if err := restrictWorkspace(ctx, a, p, c); err != nil {
		return err
	}
	if c.After != "" && a.ask(ctx, p.Fork(c.Fork), service.Show{Name: c.After}, nil) == nil {
		return errs.Fail(errs.Exist, "snapshot %q exists", c.After).WithHint("choose another name after --snapshot-after")
	}

	if c.Actor != "" {
		err := sandbox.AdoptOrphans()
		if err == nil {
			err = a.ask(ctx, p, service.Actor{Name: c.Actor}, nil)
		}
		if err != nil {
			return err
		}
	}

	if c.Report {
		if err := a.ask(ctx, p.Fork(c.Fork), service.Changed{Look: lookOfRun()}, nil); err != nil {
			return err
		}
	}
	if !c.Root {
		return nil
	}

	var found service.FoundImage
	err := a.ask(ctx, p.Fork(c.Fork), service.GetImage{}, &found)
	c.Image = found.Image

	return err
}

// lookOfRun returns the value of service.Changed.Look for this run.
func lookOfRun() string { return "run/" + strconv.Itoa(os.Getpid()) }

// reportChanges prints what the program of a run changed in a fork, below a title.
func reportChanges(ctx context.Context, a *app, p locate.Location, fork, title string) error {
	args := service.Changed{Look: lookOfRun(), ForAgent: true}
	var done service.WhatChanged
	if err := a.ask(ctx, p.Fork(fork), args, &done); err != nil {
		return err
	}

	if text := service.OpOf(args).Text.Text(args, &done); text != "" {
		fmt.Fprint(a.stderr, title+text)
	}

	return nil
}

// afterProgram reports what the program of a run changed, and takes the snapshot of --snapshot-after. A signal
// that ended the program does not interrupt it.
func afterProgram(ctx context.Context, a *app, p locate.Location, c sandbox.Config) error {
	ctx = context.WithoutCancel(ctx)
	if c.Report {
		if err := reportChanges(ctx, a, p, c.Fork, ""); err != nil {
			return err
		}
	}

	if c.After == "" {
		return nil
	}

	var made info.Info
	if err := a.ask(ctx, p.Fork(c.Fork), snapshot.CaptureOptions{Name: c.After, Wait: true}, &made); err != nil {
		return err
	}

	a.note("snapshot %s created: %s", made.Name, made.ID)
	return nil
}
