package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	web "github.com/amberfs/amberfs/cmd/amberfs/internal/page"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/strictjson"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// A uiOutput is the output of `amberfs ui --json`.
type uiOutput struct {
	URL    string `json:"url,omitempty"`
	Socket string `json:"socket,omitempty"`
	Token  string `json:"token"`
}

type uiOptions struct {
	writable, opensBrowser bool
	listenAddress          string
}

func uiCommand(a *app) *cobra.Command {
	o := &uiOptions{}
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show the timeline in a browser",
		Long: `Serves a page for you alone: snapshots, changes, events and forks. It prints the address
and runs until it is interrupted. The address works once, and stays open in the browser
that used it.

In a directory with runs, it shows these. From another machine, over ssh:

  amberfs ui --listen unix:$HOME/ui.sock        # there
  ssh -L 8080:/home/me/ui.sock HOST             # here; then open the address`,
		Example: `  amberfs ui --write --open`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE:    func(cmd *cobra.Command, _ []string) error { return showPage(cmd.Context(), a, *o) },
	}

	c.Flags().BoolVar(&o.writable, "write", false, "allow changes")
	c.Flags().BoolVar(&o.opensBrowser, "open", false, "open a browser")
	c.Flags().StringVar(&o.listenAddress, "listen", "127.0.0.1:0", "loopback `ADDRESS`, or unix:PATH")

	return c
}

// showPage serves the page of the workspace or, in a directory with runs, the page of the runs.
func showPage(ctx context.Context, a *app, o uiOptions) error {
	p, err := a.location()
	if store, ok := runsStoreHere(a); err != nil && ok {
		return runFinder(a).WithStore(ctx, store, func(*client.Client) error {
			return serveUI(ctx, a, storeLocation(store, daemon.RunMountpoint(store)), o)
		})
	}
	if err != nil {
		return err
	}
	if err := a.call(ctx, p, service.GetStatus{}, nil); err != nil {
		return err
	}

	return serveUI(ctx, a, p, o)
}

// forwardedPort is the local port that the printed ssh command forwards to the socket of the page.
const forwardedPort = "8080"

// serveUI serves the page of a store until ctx ends.
func serveUI(ctx context.Context, a *app, p locate.Location, ui uiOptions) error {
	l, err := listenUI(ui.listenAddress)
	if err != nil {
		return err
	}

	transport := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return service.Dial(ctx, p.Store) },
		DisableCompression: true,
	}
	o := web.Options{
		Daemon: transport, Mountpoint: p.Mount.Mountpoint, Workspace: strings.Join(p.Workspace, "/"), Writable: ui.writable,
		ListRuns: func(ctx context.Context) (any, error) { return runFinder(a).ListAll(ctx) },
	}
	if dir, err := storedir.FilledSource(p.Store); err == nil && dir != "" {
		o.Dir = dir
		_, o.ForksAreRuns = runs.SourceDir(p.Store)
		o.Apply = func(ctx context.Context, workspace string, args []byte) (any, error) {
			return handlePageRequest(ctx, a, p.Store, workspace, args)
		}
	}

	page := web.New(o)
	out := uiOutput{Token: page.Token()}
	if path, ok := strings.CutPrefix(ui.listenAddress, "unix:"); ok {
		out.Socket, out.URL = path, page.URL(forwardedPort)
	} else {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		out.URL = page.URL(port)
	}

	text := out.URL
	if s := out.Socket; s != "" {
		text = fmt.Sprintf("listening on %[2]s; forward it with ssh -L %[1]s:%[2]s HOST and open\n%[3]s", forwardedPort, s, out.URL)
	}

	if err := a.print(out, func() { fmt.Fprintln(a.stdout, text) }); err != nil {
		l.Close()
		return err
	}

	if ui.opensBrowser && out.Socket == "" {
		defer openBrowser(a, out.URL)()
	}

	srv := &http.Server{
		Handler: page.Handler(), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, // the end of ctx ends all requests, also the streams of events
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()

	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the page: %w", err)
	}

	return nil
}

// handlePageRequest carries out a request of the page about a workspace: it applies the workspace to the directory that
// the store was filled from, returns the hunks of one file, or marks a run as removed or kept.
func handlePageRequest(ctx context.Context, a *app, store, workspace string, args []byte) (any, error) {
	var request struct {
		Parts naming.BytePath `json:"parts"`
		Mark  string          `json:"mark"`
		runs.Apply
	}
	if err := strictjson.Decode(args, &request); err != nil {
		return nil, errs.Fail(errs.Invalid, "malformed request: %w", err)
	}

	c, err := client.Open(ctx, client.Target{Store: store, Workspace: workspace, Command: a.command})
	if err != nil {
		return nil, err
	}
	defer c.Close()

	r := &runs.Run{Store: store}
	if _, ok := runs.SourceDir(store); ok {
		r, err = runs.FindRun(ctx, store, workspace, a.command)
	} else {
		r.Dir, err = storedir.FilledSource(store)
	}
	if err != nil {
		return nil, err
	}

	switch request.Mark {
	case "":
	case service.RunRemoved, service.RunKept:
		return r, markGroup(ctx, a, r.Dir, r.Name, request.Mark)
	default:
		return nil, errs.Fail(errs.Invalid, "a run is marked as %s or %s", service.RunRemoved, service.RunKept)
	}
	if request.Parts != "" {
		return runs.FileHunks(ctx, runFinder(a), c, r, string(request.Parts))
	}

	return request.Do(ctx, runFinder(a), c, r)
}

// openBrowser starts a browser with a temporary file that redirects to the address. The browser does not get the
// address itself, because all users can read its command line, and the address has a secret. The caller must call
// remove at the end.
func openBrowser(a *app, url string) (remove func()) {
	dir, err := os.MkdirTemp("", "amberfs-ui-")
	file := filepath.Join(dir, "open.html")
	text := `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=` + html.EscapeString(url) + `">`
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o600)
	}
	if err == nil {
		err = exec.Command("xdg-open", file).Start()
	}
	if err != nil {
		a.note("cannot open a browser: %v; open the address yourself", err)
	}

	return func() { os.RemoveAll(dir) } // if dir is "", RemoveAll does nothing
}

// listenUI listens on a loopback address, or on a socket that only this user may use.
func listenUI(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		oldUmask := unix.Umask(0o177) // otherwise other users could connect before a chmod
		l, err := net.Listen("unix", path)
		unix.Umask(oldUmask)
		if err != nil {
			return nil, errs.Fail(errs.Failed, "listening on %s: %w", path, err).WithHint("if no program uses the socket, remove it")
		}

		return l, nil
	}

	host, _, err := net.SplitHostPort(address)
	if err != nil || !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, host) {
		return nil, errs.Fail(errs.Invalid, "--listen takes 127.0.0.1, ::1 or localhost with a port, such as 127.0.0.1:8080, or unix:PATH, not %q", address).
			WithHint("the page is for one user; from another machine use ssh, see `amberfs ui --help`")
	}

	return net.Listen("tcp", address)
}
