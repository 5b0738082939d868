// Package client asks a mounted store for operations of package service, over
// HTTP on the store's socket or, where that cannot be reached, through
// `.snapshots/call` in the mount: in a sandbox that has nothing but the
// workspace, or as another user than the one that mounted it. Requests and
// answers are the same.
package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
)

type Target struct {
	Store string // the directory of the store
	// Workspace names the forks, with / between them; empty for main.
	Workspace string
	// Root is where the workspace is mounted, empty if it is not, or not known.
	Root string
	// Device of the mount that the store was found by, as MAJOR:MINOR. The daemon refuses requests that
	// come by another mount than its own. Empty if the store was not found by a mount.
	Device string
	// Command is what the user ran, for the event log.
	Command string
	// User reports whether the daemon may run as a user; nil for any.
	User func(uid uint32) bool
}

type Client struct {
	target Target
	http   *http.Client // nil: through the mount
	pid    int
}

// Exchange is the streams of a request. They may be nil.
type Exchange struct {
	In       io.Reader // read until its end; an error of it fails the request
	Out      io.Writer
	Item     func(json.RawMessage) error
	Progress func(service.Progress)
}

// Open finds a way to a workspace. An error is NotFound if no daemon answers.
func Open(ctx context.Context, t Target) (*Client, error) {
	conn, err := t.dial(ctx)
	if err == nil {
		return overSocket(t, conn)
	}
	if t.Root != "" && !errors.Is(err, errOtherUser) && answers(t.Root) {
		return &Client{target: t}, nil
	}
	return nil, err
}

var errOtherUser = errors.New("its daemon is of another user than the mount")

// dial connects to the socket of the store. Anybody can have a store and its socket named as
// the source of a mount.
func (t *Target) dial(ctx context.Context) (*net.UnixConn, error) {
	conn, err := service.Dial(ctx, t.Store)
	if err != nil || t.User == nil {
		return conn, err
	}
	peer, err := service.Peer(conn)
	if err == nil && !t.User(peer.Uid) {
		err = errs.Fail(errs.Perm, "the store %s: %w (uid %d)", t.Store, errOtherUser, peer.Uid)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// overSocket uses conn for the first request, and other connections beside it.
func overSocket(t Target, conn *net.UnixConn) (*Client, error) {
	peer, err := service.Peer(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	first := make(chan net.Conn, 1)
	first <- conn
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case c := <-first:
			return c, nil
		default:
			return t.dial(ctx)
		}
	}
	transport := &http.Transport{
		DialContext: dial, DisableCompression: true, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
	}
	return &Client{target: t, http: &http.Client{Transport: transport}, pid: int(peer.Pid)}, nil
}

// bufferSize of a connection, in bytes. A trailer fits into it.
const bufferSize = 256 << 10

// DaemonPID is the process that listens, as this process's PID namespace
// numbers it; 0 when it has no number there, or only the mount is reached.
func (c *Client) DaemonPID() int { return c.pid }

func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// Do asks for the operation of args, and reads its result into result, which may be nil. Errors
// of the daemon are *errs.Error, with their result in result.
func (c *Client) Do(ctx context.Context, args any, x Exchange, result any) error {
	o := service.OpOf(args)
	var err error
	switch l, isLog := args.(service.Log); {
	case c.http == nil:
		err = c.throughMount(ctx, o, args, x, result)
	case isLog && l.Follow:
		err = c.follow(ctx, l, x)
	default:
		err = c.askAgain(ctx, o, args, x, result)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// decode reads what the daemon sent into result, which may be nil.
func (c *Client) decode(r io.Reader, result any) error {
	if result == nil {
		result = new(json.RawMessage)
	}
	if err := json.NewDecoder(r).Decode(result); err != nil {
		return c.broken(fmt.Errorf("reading the daemon's answer: %w", err))
	}
	return nil
}

// refused reads the error of the daemon, and what it has to show into result.
func (c *Client) refused(r io.Reader, result any) error {
	e := &errs.Error{Result: result}
	if err := c.decode(r, e); err != nil {
		return err
	}
	e.Result = nil
	return e
}

// errBroken is in the error for an answer that ended in the middle.
var errBroken = errors.New("the connection ended")

// broken explains an answer that ended in the middle.
func (c *Client) broken(err error) error {
	if closedIdle(err) {
		return c.endedEarly(err)
	}
	for _, is := range []error{io.EOF, io.ErrUnexpectedEOF, unix.EPIPE, unix.ECONNRESET, net.ErrClosed} {
		if errors.Is(err, is) {
			return c.endedEarly(err)
		}
	}
	return err
}

func (c *Client) endedEarly(err error) error {
	e := errs.Fail(errs.Failed, "the daemon of the store %s ended before it answered", c.target.Store).
		WithHint("the request may have been carried out: look at amberfs list and amberfs log before you repeat it; amberfs.log in the store says why the daemon ended")
	e.Err = errors.Join(errBroken, err)
	return e
}

func (c *Client) overHTTP(ctx context.Context, o *service.Op, args any, x Exchange, result any) error {
	req, err := c.request(ctx, o, args, x)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var known *errs.Error
		if errors.As(err, &known) {
			return known
		}
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return c.broken(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return c.refused(resp.Body, result)
	}
	switch resp.Header.Get("Content-Type") {
	case "application/json":
		return c.decode(resp.Body, result)
	case service.Events:
		return c.events(resp.Body, x, result)
	}
	return c.stream(resp, x, result)
}

func (c *Client) request(ctx context.Context, o *service.Op, args any, x Exchange) (*http.Request, error) {
	query, in := url.Values{}, x.In
	if o.Input != "" {
		query = o.Query(args)
	} else {
		body, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(body)
	}
	if c.target.Workspace != "" {
		query.Set("workspace", c.target.Workspace)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://amberfs/v1/"+o.Name+"?"+query.Encode(), in)
	if err != nil {
		return nil, err
	}
	req.Header.Set(service.CommandHeader, url.QueryEscape(c.target.Command))
	req.Header.Set(service.DeviceHeader, c.target.Device)
	if x.Progress != nil && o.Output == "" && o.Input == "" {
		req.Header.Set("Accept", service.Events)
	}
	return req, nil
}

// events reads server-sent events, up to the result or the end.
func (c *Client) events(r io.Reader, x Exchange, result any) error {
	in, name := bufio.NewReaderSize(r, bufferSize), ""
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return c.broken(err)
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		switch {
		case !ok:
			name = strings.TrimPrefix(strings.TrimSpace(string(line)), "event: ")
			continue
		case name == "error":
			return c.refused(bytes.NewReader(data), result)
		case name == "result":
			return c.decode(bytes.NewReader(data), result)
		case name == "progress":
			var p service.Progress
			if err = json.Unmarshal(data, &p); err == nil {
				x.Progress(p)
			}
		default:
			err = x.Item(data)
		}
		if err != nil {
			return err
		}
	}
}

// stream reads text or bytes, and the trailer that follows.
func (c *Client) stream(resp *http.Response, x Exchange, result any) error {
	out := &output{w: x.Out}
	if _, err := io.CopyBuffer(out, resp.Body, make([]byte, bufferSize)); err != nil {
		if out.err != nil {
			return out.err
		}
		return c.broken(err)
	}
	if text := resp.Trailer.Get(service.ErrorTrailer); text != "" {
		return c.refused(strings.NewReader(text), result)
	}
	if text := resp.Trailer.Get(service.ResultTrailer); text != "" {
		return c.decode(strings.NewReader(text), result)
	}
	return nil
}

// output remembers an error of writing, which is none of the daemon's.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	o.err = err
	return n, err
}
