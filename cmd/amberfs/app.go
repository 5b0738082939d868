package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// app has the global flags and the outputs, which all commands share.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	out            *output // the standard output; unlike stdout, -q and the pager do not replace it

	argv []string // the command line, without the program

	dir     string // -C
	json    bool   // --json
	quiet   bool   // -q
	verbose bool   // -v
	command string // the user's command line, for the event log
	parsed  bool   // set when the command line is parsed, before the command runs

	closePager func() // closes the pager; nil without one
	screen     *screen
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	s := &screen{}
	out := newOutput(stdout, s)
	return &app{stdin: stdin, stdout: out, out: out, stderr: newOutput(stderr, s), screen: s}
}

// commandDir returns the absolute path of the directory whose workspace the command uses.
func (a *app) commandDir() (string, error) { return a.absPath(a.dir) }

// absPath makes a path absolute. A relative path begins at the working directory, not at the directory of -C.
func (a *app) absPath(p string) (string, error) {
	if filepath.IsAbs(p) {
		return filepath.Clean(p), nil
	}
	wd, err := locate.WorkingDir()
	if err != nil {
		return "", err
	}

	return filepath.Join(wd, p), nil
}

// location returns the workspace of the directory that the command uses.
func (a *app) location() (locate.Location, error) {
	wd, err := a.commandDir()
	if err != nil {
		return locate.Location{}, err
	}
	return a.locationOf(wd)
}

// locationOf returns the workspace that a directory is in. The error has a hint for a directory outside of a mount.
func (a *app) locationOf(wd string) (locate.Location, error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return locate.Location{}, err
	}

	p, err := locate.Find(mounts, wd)
	if errors.Is(err, locate.ErrNotMounted) {
		if _, serr := os.Lstat(wd); serr != nil && errors.Is(serr, os.ErrNotExist) {
			return p, errs.Fail(errs.NotExist, "no such directory: %s", wd)
		}

		if locate.IsOverlaid(mounts, wd) {
			return p, errs.Fail(errs.Failed, "%s %w", wd, locate.ErrOverlaid).
				WithHint("give the sandbox the workspace itself, without `:O` or an overlay")
		}
		return p, errs.Fail(errs.NotExist, "%s is %w", wd, locate.ErrNotMounted).
			WithHint("go into one, or name it with -C DIR")
	}
	if errors.Is(err, locate.ErrForeign) {
		return p, errs.Fail(errs.Perm, "%w", err).WithHint("only that user can use commands there; .snapshots works by files")
	}
	if uid, foreign := p.ForeignUser(); err == nil && foreign {
		a.note("%s is a mount of the user %d", p.Mount.Mountpoint, uid)
	}

	return p, err
}

// openClient returns a client for the workspace of a location. The caller must close it.
func (a *app) openClient(ctx context.Context, p locate.Location) (*client.Client, error) {
	root, _ := p.Root()
	c, err := client.Open(ctx, client.Target{
		Store: p.Store, Workspace: strings.Join(p.Workspace, "/"), Root: root, Device: p.Device(), Command: a.command, AcceptUser: p.MayBeDaemon,
	})
	if errs.ScriptKind(err) == errs.NotExist {
		return nil, deadMountError(p, err)
	}

	return c, err
}

// openClientHere does what openClient does, for the location of the command.
func (a *app) openClientHere(ctx context.Context) (p locate.Location, c *client.Client, err error) {
	if p, err = a.location(); err != nil {
		return p, nil, err
	}
	c, err = a.openClient(ctx, p)
	return p, c, err
}

// call calls the operation of args in the workspace of a location, and shows the progress.
func (a *app) call(ctx context.Context, p locate.Location, args, result any) error {
	bar := a.newProgress()
	defer bar.done()
	return a.callWithStreams(ctx, p, args, client.Streams{Progress: bar.show}, result)
}

// callWithStreams does what call does, with streams for the input and the output of the operation. It does not show
// the progress.
func (a *app) callWithStreams(ctx context.Context, p locate.Location, args any, streams client.Streams, result any) error {
	c, err := a.openClient(ctx, p)
	if err != nil {
		return err
	}
	defer c.Close()

	err = c.Do(ctx, args, streams, result)

	if made, ok := result.(interface{ PathField() *string }); ok {
		*made.PathField() = visibleForkPath(p, *made.PathField())
	}

	return err
}

// callHere does what call does, in the location of the command.
func (a *app) callHere(ctx context.Context, args, result any) error {
	p, err := a.location()
	if err != nil {
		return err
	}
	return a.call(ctx, p, args, result)
}

// showOp calls the operation of args in the workspace of a location, and prints its result. It prints the result in the
// form Text of the operation or, if the user has set a flag in c.Forms, in the form of this flag.
func showOp(ctx context.Context, a *app, p locate.Location, args any, c *service.Command, g *service.ParsedLine) error {
	o := service.OpOf(args)
	switch o.Output {
	case service.Text:
		return showText(ctx, a, p, args)
	case service.Events:
		return showEvents(ctx, a, p, args, g.IsSet("follow"))
	}

	form := o.Text
	for flag, other := range c.Forms {
		if g.IsSet(flag) {
			form = other
		}
	}

	result := reflect.New(o.Result).Interface()
	text := func() {
		if c.UsesPager {
			a.usePager()
		}
		printResult(a, form, args, result)
	}

	call := a.call
	if c.AsksAboutConflicts {
		call = a.callMerge
	}

	err := call(ctx, p, args, result)
	if c.PrintsDamage && errs.ScriptKind(err) == errs.Damaged {
		return a.printFailed(result, err, text)
	}
	if paths := service.Conflicts(result); err != nil && len(paths) > 0 {
		return a.printFailed(result, err, func() { printPaths(a, paths) })
	}
	if err != nil {
		return err
	}

	if noted, ok := result.(interface{ Notes() []string }); ok {
		for _, n := range noted.Notes() {
			a.noteText(n)
		}
	}

	return a.print(o.ShownPart(result), text)
}

// showText prints the differences that an operation writes.
func showText(ctx context.Context, a *app, p locate.Location, args any) error {
	bar := a.newProgress()
	defer bar.done()

	out := &diffWriter{a: a, bar: bar}
	if err := a.callWithStreams(ctx, p, args, client.Streams{Out: out}, nil); err != nil {
		if out.writeFailed {
			return nil // the reader of the output, such as the pager, has ended
		}
		return err
	}

	if err := out.flush(); err != nil {
		return nil
	}
	if out.writtenBytes == 0 {
		a.printf("no differences\n")
	}

	return nil
}

// showEvents prints the events that an operation returns. If follows is set, it runs until the user ends it.
func showEvents(ctx context.Context, a *app, p locate.Location, args any, follows bool) error {
	if !follows {
		a.usePager()
	}

	err := a.callWithStreams(ctx, p, args, client.Streams{Item: func(line json.RawMessage) error { return printEvent(a, line) }}, nil)
	if follows && ctx.Err() != nil {
		return nil
	}

	return err
}

// printResult prints the text form of a call's result. result is a pointer to it.
func printResult(a *app, form service.Form, args, result any) {
	if !a.verbose {
		service.Shorten(result, maxPrintedPaths)
	}

	switch rows, fields := form.Table(result); {
	case rows == nil:
		a.printf("%s", form.Text(args, result))
	case fields:
		printTable(a.stdout, rows)
	default:
		a.printRows(rows)
	}
}

// deadMountError returns the error for a mount whose daemon does not answer.
func deadMountError(p locate.Location, cause error) error {
	if _, err := os.Lstat(filepath.Join(p.Store, "format")); err != nil {
		return errs.Fail(errs.NotExist, "the store %s of this mount cannot be reached from here: %w", p.Store, errors.Unwrap(err)).
			WithHint("use the files of .snapshots instead")
	}

	return errs.Fail(errs.NotExist, "the daemon of the mount at %s is not running", p.Mount.Mountpoint).
		WithHint("nothing acknowledged is lost: mount it again with `amberfs mount %s %s`", quote(p.Store), quote(p.Mount.Mountpoint)).WithCause(cause)
}

// visibleForkPath converts the path of a fork in the daemon's mount to the path of the fork in the mount of p. In a run,
// the two mounts have different mount points.
func visibleForkPath(p locate.Location, path string) string {
	if root, ok := p.Root(); ok {
		return filepath.Join(root, naming.ForksDir, filepath.Base(path))
	}
	return path
}

// workspacePath makes a path relative to the root of the workspace. The root is ".".
func workspacePath(p locate.Location, path string) (naming.BytePath, error) {
	if path == "" {
		return "", errs.Fail(errs.Invalid, "a PATH is empty")
	}
	rel, err := p.Rel(path)
	if errors.Is(err, locate.ErrOutside) {
		return "", errs.Fail(errs.Invalid, "the path %w", err)
	}
	if err != nil {
		return "", err
	}

	return naming.BytePath(cmp.Or(rel, ".")), nil
}
