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
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/internal/descriptors"
)

// A Target is the workspace of a Client.
type Target struct {
	Store string // the directory of the store
	// Workspace has the names of the forks on the path to the workspace, separated by /; empty for main.
	Workspace string
	// Root is the directory at which the workspace is mounted; empty if it is not mounted, or if the
	// directory is not known.
	Root string
	// Device is the device, as MAJOR:MINOR, of the mount through which the store was found; empty if the
	// store was found in another way. The daemon refuses requests with the device of another mount than its
	// own.
	Device string
	// Command is the command line of the user, for the event log.
	Command string
	// AcceptUser reports whether a daemon of the user uid is accepted. If AcceptUser is nil, all are accepted.
	AcceptUser func(uid uint32) bool
}

// A Client calls operations on a workspace. It is safe for concurrent use.
type Client struct {
	target     Target
	http       *http.Client // nil if requests go through the mount
	daemonPID  int
	fileSender *descriptors.Sender
}

// Streams are the streams of a request and of its answer. Each may be nil if the operation does not use it.
type Streams struct {
	In       io.Reader // read to its end; if a read fails, the request fails
	Out      io.Writer
	Item     func(json.RawMessage) error // called for each event
	Progress func(service.Progress)
}

// Open connects to a workspace over the socket, or else finds the control file in t.Root. The error is
// of the kind NotExist if no daemon answers. The caller closes the client.
func Open(ctx context.Context, t Target) (*Client, error) {
	conn, peer, err := t.dial(ctx)
	if err == nil {
		return newSocketClient(t, conn, int(peer.Pid)), nil
	}
	if t.Root != "" && !errors.Is(err, errOtherUser) && hasCallFile(t.Root) {
		return &Client{target: t}, nil
	}

	return nil, err
}

// WithClient calls fn with a client that it opens and closes.
func WithClient(ctx context.Context, t Target, fn func(*Client) error) error {
	c, err := Open(ctx, t)
	if err != nil {
		return err
	}
	defer c.Close()

	return fn(c)
}

// errOtherUser is wrapped in the error for a daemon of a user that Target.AcceptUser does not accept.
var errOtherUser = errors.New("its daemon is of another user than the mount")

// dial connects to the socket of the store, and checks the user of the daemon. The check is needed because the source
// of a mount can name a store, and so a socket, of any user.
func (t *Target) dial(ctx context.Context) (*net.UnixConn, *unix.Ucred, error) {
	conn, err := service.Dial(ctx, t.Store)
	if err != nil {
		return nil, nil, err
	}

	peer, err := service.PeerCredentials(conn)
	if err == nil && t.AcceptUser != nil && !t.AcceptUser(peer.Uid) {
		err = errs.Fail(errs.Perm, "the store %s: %w (uid %d)", t.Store, errOtherUser, peer.Uid)
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}

	return conn, peer, nil
}

// newSocketClient returns a client that uses conn for its first request, and dials for further connections. pid
// is the process id of the daemon.
func newSocketClient(t Target, conn *net.UnixConn, pid int) *Client {
	first := make(chan *net.UnixConn, 1)
	first <- conn
	files := &descriptors.Sender{}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		select {
		case c := <-first:
			return files.Conn(c), nil
		default:
			c, _, err := t.dial(ctx)
			if err != nil {
				return nil, err
			}
			return files.Conn(c), nil
		}
	}

	transport := &http.Transport{
		DialContext: dial, DisableCompression: true, ReadBufferSize: bufferSize, WriteBufferSize: bufferSize,
	}

	return &Client{target: t, http: &http.Client{Transport: transport}, daemonPID: pid, fileSender: files}
}

// bufferSize is the size of a connection's buffers, in bytes. A trailer must fit into a buffer.
const bufferSize = 256 << 10

// DaemonPID returns the process id of the daemon in this process's PID namespace. It is 0 if the daemon
// has none there, or if requests go through the mount.
func (c *Client) DaemonPID() int { return c.daemonPID }

// Close closes unused connections.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
		c.fileSender.Close()
	}
}

// SendFile sends an open file to the daemon, before the next bytes of the request that is being sent. It returns
// false if the file cannot be sent, and the request must have its bytes instead. The caller makes one request at a
// time.
func (c *Client) SendFile(fd int) bool { return c.http != nil && c.fileSender.Add(fd) }

// Do calls the operation that takes args, and decodes its result into result, which may be nil. Errors of the
// daemon are of the type *errs.Error. If such an error has a result, Do decodes this into result.
func (c *Client) Do(ctx context.Context, args any, x Streams, result any) error {
	o := service.OpOf(args)
	var err error
	switch {
	case o.IsFollowing(args):
		err = c.follow(ctx, args.(service.Log), x)
	case c.http == nil:
		err = c.doThroughMount(ctx, o, args, x, result)
	default:
		err = c.doWithRetries(ctx, o, args, x, result)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}

	return err
}

// decode reads a JSON value of the daemon, and decodes it into result. If result is nil, it drops the value.
func (c *Client) decode(r io.Reader, result any) error {
	if result == nil {
		result = new(json.RawMessage)
	}
	if err := json.NewDecoder(r).Decode(result); err != nil {
		return c.explainBroken(fmt.Errorf("reading the daemon's answer: %w", err))
	}

	return nil
}

// decodeError reads an error of the daemon and returns it. It decodes the error's result into result.
func (c *Client) decodeError(r io.Reader, result any) error {
	e := &errs.Error{Result: result}
	if err := c.decode(r, e); err != nil {
		return err
	}
	e.Result = nil
	return e
}

// errBroken is wrapped in the error for a connection that was closed before the end of the answer.
var errBroken = errors.New("the connection ended")

// errIdle is wrapped in the error for a connection that the daemon closed between two requests.
var errIdle = errors.New("the daemon closed the idle connection")

// explainBroken returns an error for the user that wraps errBroken if err means that the connection ended. The
// error also wraps errIdle if net/http found the idle connection closed. explainBroken returns other errors
// unchanged.
func (c *Client) explainBroken(err error) error {
	if strings.Contains(err.Error(), "server closed idle connection") { // net/http does not export this error
		err = errors.Join(errIdle, err)
	}

	ends := []error{io.EOF, io.ErrUnexpectedEOF, unix.EPIPE, unix.ECONNRESET, net.ErrClosed, errIdle}
	if !slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) }) {
		return err
	}

	return errs.Fail(errs.Failed, "the daemon of the store %s ended before it answered", c.target.Store).
		WithHint("the request may have been carried out: look at amberfs list and amberfs log before you repeat it; amberfs.log in the store says why the daemon ended").
		WithCause(errors.Join(errBroken, err))
}

// doHTTP sends one request over the socket, and decodes the answer into result.
func (c *Client) doHTTP(ctx context.Context, o *service.Op, args any, x Streams, result any) error {
	req, err := c.newRequest(ctx, o, args, x)
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

		return c.explainBroken(err)
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return c.decodeError(resp.Body, result)
	}

	switch resp.Header.Get("Content-Type") {
	case "application/json":
		return c.decode(resp.Body, result)
	case service.Events:
		return c.readEvents(resp.Body, x, result)
	}

	return c.readStream(resp, x, result)
}

// newRequest builds the request for an operation. The arguments are the body or, if the body is a stream,
// the query.
func (c *Client) newRequest(ctx context.Context, o *service.Op, args any, x Streams) (*http.Request, error) {
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

// readEvents reads server-sent events until the result, an error or the end of the stream.
func (c *Client) readEvents(r io.Reader, x Streams, result any) error {
	in, name := bufio.NewReaderSize(r, bufferSize), ""

	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return nil
		}
		if err != nil {
			return c.explainBroken(err)
		}

		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		switch {
		case !ok:
			name = strings.TrimPrefix(strings.TrimSpace(string(line)), "event: ")
			continue
		case name == "error":
			return c.decodeError(bytes.NewReader(data), result)
		case name == "result":
			return c.decode(bytes.NewReader(data), result)
		case name == "progress":
			var p service.Progress
			if err := json.Unmarshal(data, &p); err != nil {
				return err
			}
			x.Progress(p)

		default:
			if err := x.Item(data); err != nil {
				return err
			}
		}
	}
}

// readStream copies text or bytes to x.Out, and reads the trailer that follows.
func (c *Client) readStream(resp *http.Response, x Streams, result any) error {
	out := &errWriter{w: x.Out}
	if _, err := io.CopyBuffer(out, resp.Body, make([]byte, bufferSize)); err != nil {
		if out.err != nil {
			return out.err
		}
		return c.explainBroken(err)
	}

	if text := resp.Trailer.Get(service.ErrorTrailer); text != "" {
		return c.decodeError(strings.NewReader(text), result)
	}
	if text := resp.Trailer.Get(service.ResultTrailer); text != "" {
		return c.decode(strings.NewReader(text), result)
	}

	return nil
}

// An errWriter stores the error of its last write. So the caller of a copy that failed can find out whether the write
// failed, or the read from the daemon.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	w.err = err
	return n, err
}
