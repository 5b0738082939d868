package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/amberfs/amberfs/cas/guard"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// Call is one request being answered. Its methods that send are safe for
// concurrent use.
type Call struct {
	Request
	Peer Peer

	conn net.Conn
	r    *bufio.Reader

	mu       sync.Mutex // orders what is sent
	w        *bufio.Writer
	lastProg time.Time
}

// Handler answers one request. What it returns becomes the result or error
// line; ctx ends when the command hangs up or the server closes.
type Handler func(ctx context.Context, c *Call) (any, error)

// Decode reads the request's arguments into v, refusing unknown ones.
func (c *Call) Decode(v any) error {
	if len(c.Args) == 0 {
		return nil
	}
	if err := json.Unmarshal(c.Args, v); err != nil {
		return fail.New(fail.Usage, "malformed arguments of %s: %v", c.Op, err)
	}
	return nil
}

// Progress tells how far the work has come. Most calls are dropped: a person
// needs ten a second.
func (c *Call) Progress(p Progress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.lastProg) < 100*time.Millisecond && (p.Total == 0 || p.Done < p.Total) {
		return
	}
	c.lastProg = now
	_ = c.send(Response{Progress: &p}) // the result tells whether the caller is still there
}

// Item sends one of many results.
func (c *Call) Item(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an item: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.send(Response{Item: b})
}

// Write sends raw bytes, so that a Call can be what a diff or an archive is
// written to.
func (c *Call) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := writeData(c.w, p); err != nil {
		return 0, err
	}
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	return len(p), nil
}

// send is called with mu held.
func (c *Call) send(v Response) error {
	if err := writeLine(c.w, v); err != nil {
		return err
	}
	return c.w.Flush()
}

// Input reads the raw bytes that follow the request.
func (c *Call) Input() io.Reader { return &dataReader{r: c.r} }

// dataReader undoes the {"data":N} framing.
type dataReader struct {
	r    *bufio.Reader
	left int
	end  bool
}

func (d *dataReader) Read(p []byte) (int, error) {
	if d.end {
		return 0, io.EOF
	}
	if d.left == 0 {
		var l dataLine
		if err := readLine(d.r, &l, maxRequest); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
		if l.Data < 0 || l.Data > maxData {
			return 0, errors.New("a control message announces too much data")
		}
		if l.Data == 0 {
			d.end = true
			return 0, io.EOF
		}
		d.left = l.Data
	}
	n, err := d.r.Read(p[:min(len(p), d.left)])
	d.left -= n
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Server answers on a store's socket.
type Server struct {
	l       *net.UnixListener
	release func()
	handler Handler
	log     *slog.Logger
	owner   uint32

	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

// Listen makes the socket of the store dir and answers until Close. A socket
// that a dead daemon left is replaced: the caller holds the store's lock.
func Listen(dir string, h Handler, log *slog.Logger) (*Server, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("making the control socket: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		release()
		return nil, fmt.Errorf("replacing the control socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		release()
		return nil, fmt.Errorf("making the control socket in %s: %w", dir, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		release()
		return nil, fmt.Errorf("protecting the control socket: %w", err)
	}
	s := &Server{l: l, release: release, handler: h, log: log, owner: uint32(os.Geteuid())}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.calls.Add(1)
	go s.accept()
	return s, nil
}

func (s *Server) accept() {
	defer s.calls.Done()
	for {
		c, err := s.l.AcceptUnix()
		if err != nil {
			if s.ctx.Err() != nil {
				return
			}
			s.log.Warn("control socket", "error", err)
			time.Sleep(50 * time.Millisecond) // out of file descriptors, perhaps
			continue
		}
		s.calls.Add(1)
		go func() {
			defer s.calls.Done()
			guard.Call(s.log, "control socket", func() { s.serve(c) })
		}()
	}
}

// serve answers one connection.
func (s *Server) serve(conn *net.UnixConn) {
	defer conn.Close()
	c := &Call{conn: conn, r: bufio.NewReaderSize(conn, 64<<10), w: bufio.NewWriterSize(conn, 64<<10)}
	peer, err := peerOf(conn)
	if err != nil {
		s.log.Warn("control socket", "error", err)
		return
	}
	c.Peer = peer
	if peer.UID != 0 && peer.UID != s.owner {
		s.log.Warn("refused a control connection", "uid", peer.UID, "pid", peer.PID)
		c.finish(nil, fail.New(fail.Failed, "only the user who mounted this file system, or root, may control it"))
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	stop := context.AfterFunc(s.ctx, func() {
		_ = conn.SetReadDeadline(time.Now())
		_ = conn.SetWriteDeadline(time.Now().Add(lastWords)) // a command that is stopped reads nothing
	})
	defer stop()
	if err := readLine(c.r, &c.Request, maxRequest); err != nil {
		if !errors.Is(err, io.EOF) {
			c.finish(nil, fail.New(fail.Usage, "malformed control request: %v", err))
		}
		return
	}
	if !takesInput[c.Op] {
		// Nothing more is to come, so what the read returns is the hang-up.
		go func() {
			c.r.Peek(1)
			cancel()
		}()
	}
	start := time.Now()
	result, err := s.run(ctx, c)
	if err != nil && ctx.Err() == nil {
		s.log.Info("control", "op", c.Op, "uid", peer.UID, "pid", peer.PID, "error", err.Error())
	} else {
		s.log.Debug("control", "op", c.Op, "uid", peer.UID, "pid", peer.PID, "took", time.Since(start))
	}
	_ = conn.SetWriteDeadline(time.Now().Add(patience))
	if s.ctx.Err() != nil {
		_ = conn.SetWriteDeadline(time.Now().Add(lastWords))
	}
	c.finish(result, err)
}

// patience is how long a command may take to read the end of its answer, lastWords
// the same of a server that is being closed.
const (
	patience  = 10 * time.Second
	lastWords = 300 * time.Millisecond
)

// takesInput names the operations whose request is followed by raw bytes.
var takesInput = map[string]bool{"import": true, "stampindex": true, "open": true}

// run calls the handler; a panic is an error of this request and a line in the
// log, not the end of everybody's file system.
func (s *Server) run(ctx context.Context, c *Call) (result any, err error) {
	err = guard.Do(func() (err error) {
		result, err = s.handler(ctx, c)
		return err
	})
	var p *guard.Panic // of the handler, or of what worked for it
	if errors.As(err, &p) {
		s.log.Error("control request panicked", "op", c.Op, "error", err, guard.Stack(err))
		err = fail.New(fail.Failed, "the daemon failed in %q: %v", c.Op, p.Value).WithHint("its log is amberfs.log in the store")
	}
	return result, err
}

// finish sends the last line.
func (c *Call) finish(result any, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		_ = c.send(Response{Error: WireError(err)})
		return
	}
	if result == nil {
		result = struct{}{}
	}
	b, err := json.Marshal(result)
	if err != nil {
		_ = c.send(Response{Error: WireError(fmt.Errorf("encoding the result of %s: %w", c.Op, err))})
		return
	}
	_ = c.send(Response{Result: b})
}

// WireError is err as it crosses a socket or pipe.
func WireError(err error) *Error {
	w := &Error{Kind: fail.KindOf(err), Message: err.Error()}
	var e *fail.Error
	if errors.As(err, &e) {
		w.Message, w.Hint = e.Msg, e.Hint
	}
	var r *ResultError
	if errors.As(err, &r) {
		w.Result, _ = json.Marshal(r.Result)
	}
	return w
}

// Close stops listening, removes the socket, cancels what runs and waits for it.
func (s *Server) Close() error {
	s.cancel()
	err := s.l.Close()
	s.calls.Wait()
	s.release()
	return err
}
