package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// runHere runs a program in a fork of the workspace that the command stands in.
func (a *app) runHere(ctx context.Context, p locate.Place, c sandbox.Config, from string) error {
	root, ok := p.Root()
	if !ok {
		return fail.New(fail.Usage, "the root of the workspace is not mounted here")
	}
	err := a.ask(ctx, p, service.Fork{Name: c.Fork, Snapshot: from}, nil)
	if err != nil && fail.KindOf(err) != fail.Exists {
		return err
	}
	dir := filepath.Join(root, snapshot.ForksDir, c.Fork)
	status, err := runIn(ctx, dir, c.Command)
	if err == nil && c.After != "" {
		err = a.snapshotAfter(ctx, dir, c.After)
	}
	if err == nil && status != 0 {
		return exitCode(status)
	}
	return err
}

// runIn runs a program in a directory, passes SIGTERM and the like on, and gives
// its exit status as a shell does.
func runIn(ctx context.Context, dir string, argv []string) (int, error) {
	runtime.LockOSThread() // for good: it starts nothing with rights any more
	if err := sandbox.NoNewPrivileges(); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return 127, fail.New(fail.Failed, "there is no command %s", argv[0])
	case !errors.As(err, &exit):
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

func (a *app) snapshotAfter(ctx context.Context, dir, name string) error {
	p, err := a.placeOf(dir)
	if err != nil {
		return err
	}
	return a.ask(ctx, p, service.Snapshot{Name: name, Wait: true}, nil)
}
