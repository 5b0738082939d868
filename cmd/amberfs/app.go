package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/byfiles"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/control"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
)

// app is what the commands share: the global flags and where output goes.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	dir     string // -C
	json    bool   // --json
	command string // what the user ran
	started bool   // the command line was understood

	pager *pager
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{stdin: stdin, stdout: stdout, stderr: stderr}
}

// cwd is the directory that says which workspace is meant, absolute.
func (a *app) cwd() (string, error) {
	if filepath.IsAbs(a.dir) {
		return filepath.Clean(a.dir), nil
	}
	wd, err := locate.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Join(wd, a.dir), nil
}

// abs makes a path outside of the workspace absolute. -C does not matter here:
// it says which workspace is meant, and where the paths inside of it begin.
func (a *app) abs(p string) (string, error) {
	if filepath.IsAbs(p) {
		return filepath.Clean(p), nil
	}
	wd, err := locate.Getwd()
	if err != nil {
		return "", err
	}
	return filepath.Join(wd, p), nil
}

// place finds the mount that the command is about.
func (a *app) place() (locate.Place, error) {
	wd, err := a.cwd()
	if err != nil {
		return locate.Place{}, err
	}
	mounts, err := locate.Mounts()
	if err != nil {
		return locate.Place{}, err
	}
	p, err := locate.Find(mounts, wd)
	if errors.Is(err, locate.ErrNotMounted) {
		if _, serr := os.Lstat(wd); serr != nil && errors.Is(serr, os.ErrNotExist) {
			return p, fail.New(fail.NotFound, "there is no directory %s", wd)
		}
		return p, fail.New(fail.NotFound, "%s is not inside an amberfs mount", wd).
			WithHint("go into one, or name it with -C DIR")
	}
	return p, err
}

// request says what to ask of the daemon, and what to do with a long answer.
type request struct {
	op     string
	args   any
	input  io.Reader
	output io.Writer
	onItem func(json.RawMessage) error
	show   *progress // by this one
}

// ask sends a request about the workspace of place and waits for its result.
func (a *app) ask(ctx context.Context, p locate.Place, r request, result any) error {
	c, err := control.Dial(p.Store)
	if err != nil {
		if answered, ferr := a.askFiles(ctx, p, r, result); answered {
			return ferr
		}
		if fail.KindOf(err) == fail.NotFound {
			return deadMount(p, err)
		}
		return err
	}
	defer c.Close()
	return a.askOn(ctx, c, p.Workspace, r, result)
}

// askFiles does without the socket what can be done with files. It reports
// false when they do not answer either.
func (a *app) askFiles(ctx context.Context, p locate.Place, r request, result any) (answered bool, err error) {
	root, ok := p.Root()
	w := byfiles.Workspace{Root: root, Output: r.output, OnItem: r.onItem}
	if !ok || !w.Alive() {
		return false, nil
	}
	var args json.RawMessage
	if r.args != nil {
		if args, err = json.Marshal(r.args); err != nil {
			return true, err
		}
	}
	if err = w.Do(ctx, r.op, args, result); errors.Is(err, byfiles.ErrCannot) {
		return true, fail.New(fail.Failed, "the store %s of this mount cannot be reached from here, which this takes", p.Store).
			WithHint("run it as the user who mounted it, and outside of the sandbox")
	}
	return true, err
}

// askHere is ask for the place that the command runs in.
func (a *app) askHere(ctx context.Context, r request, result any) error {
	p, err := a.place()
	if err != nil {
		return err
	}
	return a.ask(ctx, p, r, result)
}

// askOn sends a request on a connection.
func (a *app) askOn(ctx context.Context, c *control.Client, workspace []string, r request, result any) error {
	x := control.Exchange{
		Request: control.Request{Op: r.op, Workspace: workspace, Command: a.command},
		Input:   r.input,
		Output:  r.output,
		OnItem:  r.onItem,
	}
	if r.args != nil {
		b, err := json.Marshal(r.args)
		if err != nil {
			return err
		}
		x.Request.Args = b
	}
	switch {
	case r.show != nil:
		x.OnProgress = r.show.show
	case r.onItem == nil:
		bar := a.newProgress()
		defer bar.done()
		x.OnProgress = bar.show
		if _, ok := r.output.(*diffWriter); ok {
			x.Output = bar.until(r.output)
		}
	}
	return c.Do(ctx, x, result)
}

// deadMount explains a mount whose daemon does not answer.
func deadMount(p locate.Place, cause error) error {
	if _, err := os.Lstat(filepath.Join(p.Store, "format")); err != nil {
		return fail.New(fail.NotFound, "the store %s of this mount cannot be reached from here: %w", p.Store, errors.Unwrap(err)).
			WithHint("use the files of .snapshots instead")
	}
	e := fail.New(fail.NotFound, "the daemon of the mount at %s has ended", p.Mount.Point).
		WithHint("nothing acknowledged is lost: mount it again with `amberfs mount %s %s`", quote(p.Store), quote(p.Mount.Point))
	e.Err = cause
	return e
}
