package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
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
	dir := filepath.Join(root, naming.ForksDir, c.Fork)
	status, err := runIn(dir, c.Command)
	if err == nil && c.After != "" {
		// A signal that ended the program does not cancel what comes after it.
		err = a.snapshotAfter(context.WithoutCancel(ctx), dir, c.After)
	}
	if status != 0 {
		if err != nil {
			a.note("%v", err)
		}
		return exitCode(status)
	}
	return err
}

// runIn runs a program in a directory and returns its exit status as a shell does.
func runIn(dir string, argv []string) (int, error) {
	runtime.LockOSThread() // for good: it starts nothing with rights any more
	if err := sandbox.NoNewPrivileges(); err != nil {
		return 0, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PWD="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return sandbox.Foreground(cmd)
}

func (a *app) snapshotAfter(ctx context.Context, dir, name string) error {
	p, err := a.placeOf(dir)
	if err != nil {
		return err
	}
	return a.ask(ctx, p, service.Snapshot{Name: name, Wait: true}, nil)
}
