package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service/internal/descriptors"
	"github.com/amberfs/amberfs/snapshot/actors"
)

const (
	// workspaceParam is the query parameter with the workspace, as the names of forks with / between them.
	// Without it, the workspace is main.
	workspaceParam = "workspace"
	// CommandHeader is the command line of the user, percent-encoded, for the event log.
	CommandHeader = "Amberfs-Command"
	// DeviceHeader is the device (MAJOR:MINOR) of the mount by which the caller found the store.
	DeviceHeader = "Amberfs-Device"
	// ResultTrailer and ErrorTrailer are the trailers of an answer that is a stream. One of them has
	// the result or the error as JSON.
	ResultTrailer = "Amberfs-Result"
	ErrorTrailer  = "Amberfs-Error"

	// maxBodyBytes is the largest size of the arguments of a request. It is large because arguments may name many
	// paths.
	maxBodyBytes = 16 << 20
	// closeGrace is the time that Server.Close gives to answers under way.
	closeGrace = 2 * time.Second
)

// A Server answers requests on the socket of a store.
type Server struct {
	service  *Service
	http     *http.Server
	door     *door
	release  func() // ends the use of the socket's path, see socketPath
	cancel   context.CancelFunc
	handlers sync.WaitGroup // handlers that run
	calls    *callSet
}

// peerKey is the key, in the context of a request, of the peer's credentials.
type peerKey struct{}

// filesKey is the key, in the context of a request, of the descriptors.Receiver that receives open files from the
// client.
type filesKey struct{}

// Listen creates the socket of the store dir and answers requests until Close. socket, if set, is the
// socket that the previous daemon created.
func (s *Service) Listen(dir string, socket *os.File) (*Server, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("making the socket: %w", err)
	}

	if socket == nil {
		l, err := listen(path)
		if err != nil {
			release()
			return nil, fmt.Errorf("making the socket in %s: %w", dir, err)
		}
		return s.serveOn(l, release), nil
	}

	l, err := net.FileListener(socket)
	socket.Close()
	if err != nil {
		release()
		return nil, fmt.Errorf("taking over the socket: %w", err)
	}

	return s.serveOn(l.(*net.UnixListener), func() {
		_ = unix.Unlink(path) // a listener that was made from a descriptor does not remove the path of its socket
		release()
	}), nil
}

// serveOn answers requests on a socket. It calls release when the server has closed.
func (s *Service) serveOn(l *net.UnixListener, release func()) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	srv := &Server{service: s, door: &door{UnixListener: l}, release: release, cancel: cancel}
	srv.calls = &callSet{active: make(map[*pendingCall]bool), freshConns: make(map[net.Conn]bool), removal: make(chan struct{})}
	mux := srv.handler()
	counted := func(w http.ResponseWriter, r *http.Request) {
		srv.handlers.Add(1)
		defer srv.handlers.Done()

		call, r := srv.calls.add(r)
		defer call.remove()

		mux.ServeHTTP(w, r)
	}

	srv.http = &http.Server{
		Handler:           http.HandlerFunc(counted),
		ReadHeaderTimeout: time.Minute,
		ConnState:         srv.calls.connState,
		ErrorLog:          slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			from := c.(*descriptors.Receiver)
			peer, err := PeerCredentials(from.UnixConn)
			if err != nil {
				s.Log.Warn("socket", "err", err)
			}

			return context.WithValue(context.WithValue(ctx, peerKey{}, peer), filesKey{}, from)
		},
	}

	go func() {
		if err := srv.http.Serve(srv.door); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("serving the socket", "err", err)
		}
	}()

	return srv
}

// BecomePeer makes this process the peer whose credentials clients see on the socket. The kernel takes the
// credentials from the process that called listen(2) last.
func (srv *Server) BecomePeer() {
	if raw, err := srv.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.Listen(int(fd), unix.SOMAXCONN) })
	}
}

// SyscallConn gives access to the socket.
func (srv *Server) SyscallConn() (syscall.RawConn, error) { return srv.door.SyscallConn() }

// Close cancels the requests that run, and returns when no handler works on the store any more. The
// connection of a client that does not read its answer within closeGrace is closed.
func (srv *Server) Close() error {
	srv.cancel()
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()

	err := srv.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = srv.http.Close()
	}

	srv.handlers.Wait()
	srv.release()
	if err != nil {
		return fmt.Errorf("closing the socket: %w", err)
	}

	return nil
}

// handler answers POST /v1/OP for every operation. Operations that return a stream also have
// GET /v1/OP, so that a browser or curl can follow the stream.
func (srv *Server) handler() http.Handler {
	mux := http.NewServeMux()
	for _, o := range ops {
		serve := func(w http.ResponseWriter, r *http.Request) { srv.serve(w, r, o) }
		mux.HandleFunc("POST /v1/"+o.Name, serve)
		if o.Output != "" {
			mux.HandleFunc("GET /v1/"+o.Name, serve)
		}
	}

	mux.HandleFunc("POST "+joinPath, ownerOnly(srv.join))
	mux.HandleFunc("POST "+upgradePath, ownerOnly(srv.upgrade))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		name, _ := strings.CutPrefix(r.URL.Path, "/v1/")
		_, err := findOp(name)
		if err == nil {
			err = errs.Fail(errs.Invalid, "%s takes POST, not %s", name, r.Method)
			writeJSON(w, http.StatusMethodNotAllowed, err)
			return
		}

		e := *errs.ErrorOf(err)
		e.Kind = errs.NotExist
		writeError(w, &e)
	})

	return mux
}

// serve answers a request for the operation o.
func (srv *Server) serve(w http.ResponseWriter, r *http.Request, o *Op) {
	req, args, err := srv.service.readRequest(r, o)
	if err != nil {
		writeError(w, err)
		return
	}

	a := &answer{
		ctx: r.Context(), w: w, controller: http.NewResponseController(w), op: o,
		acceptsEvents: o.Output == "" && r.Header.Get("Accept") == Events, flushesEvents: o.Follows == nil || o.Follows(args),
	}
	if o.IsFollowing(args) {
		exemptCall(r)
	}
	defer req.Release()

	req.Out, req.Item, req.Progress = a, a.sendItem, a.sendProgress
	result, err := srv.service.Do(r.Context(), req, args)
	a.sendResult(result, err)
}

// ownerCredentials returns the credentials of the caller. It fails unless the caller is the owner of the store or
// root.
func ownerCredentials(r *http.Request) (*unix.Ucred, error) {
	peer, _ := r.Context().Value(peerKey{}).(*unix.Ucred)
	if peer == nil || !(actors.Caller{UID: peer.Uid}).OwnsStore() {
		return nil, errs.Fail(errs.Perm, "only the user that mounted this file system, or root, can control it")
	}
	return peer, nil
}

// ownerOnly returns a handler that calls serve if the caller is the owner of the store or root. If serve returns an
// error, the handler sends it as the answer.
func ownerOnly(serve func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, err := ownerCredentials(r)
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			writeError(w, err)
		}
	}
}

// readRequest checks the caller of a request, and reads the arguments and the workspace.
func (s *Service) readRequest(r *http.Request, o *Op) (*Request, any, error) {
	peer, err := ownerCredentials(r)
	if err != nil {
		return nil, nil, err
	}

	if mounted, own := r.Header.Get(DeviceHeader), s.Mount.Device(); mounted != "" && own != "" && mounted != own {
		return nil, nil, errs.Fail(errs.Perm, "the mount is not that of the daemon of its store, which is at %s; nothing was done", s.mountpoint).
			WithHint("a mount can name any store: unmount it, or go to %s", s.mountpoint)
	}

	args, err := o.readArgs(r)
	if err != nil {
		return nil, nil, err
	}

	ws, err := findWorkspace(s.main, r.URL.Query().Get(workspaceParam))
	if err != nil {
		return nil, nil, err
	}

	command, err := url.QueryUnescape(r.Header.Get(CommandHeader))
	if err != nil {
		return nil, nil, errs.Fail(errs.Invalid, "the header %s is malformed: %w", CommandHeader, err)
	}

	caller := actors.Caller{UID: peer.Uid, GID: peer.Gid, PID: uint32(peer.Pid), ViaSocket: true, Command: command}
	req := &Request{Caller: caller, Workspace: ws, In: r.Body}
	if from, ok := r.Context().Value(filesKey{}).(*descriptors.Receiver); ok {
		req.NextFile = from.Next
	}

	return req, args, nil
}

func writeError(w http.ResponseWriter, err error) {
	e := errs.ErrorOf(err)
	writeJSON(w, e.Kind.HTTPStatus(), e)
}

// writeJSON sends an answer. It ignores an error of the connection, which means that the client has closed it.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = gitquote.Encoder(w).Encode(v)
}

// An answer writes the answer to one request over HTTP. Its methods are safe for concurrent use.
type answer struct {
	ctx           context.Context // the context of the request; when it ends, a stream is cut off
	w             http.ResponseWriter
	controller    *http.ResponseController
	op            *Op
	acceptsEvents bool // the client accepts events: progress, and at last the result
	flushesEvents bool // each event is sent at once

	mu             sync.Mutex
	headSent       bool
	lastProgressAt time.Time // when progress was last reported
}

// writeHead sends the HTTP head of a stream, unless it was sent. The caller holds a.mu.
func (a *answer) writeHead(contentType string) {
	if a.headSent {
		return
	}
	a.headSent = true
	h := a.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Add("Trailer", ResultTrailer)
	h.Add("Trailer", ErrorTrailer)
	a.w.WriteHeader(http.StatusOK)
}

// Write writes a part of the operation's output.
func (a *answer) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.writeHead(a.op.Output)
	if err := a.ctx.Err(); err != nil {
		return 0, err
	}

	return a.w.Write(p)
}

// sendItem sends an event of an operation with the output Events.
func (a *answer) sendItem(v any) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.ctx.Err(); err != nil {
		return err
	}
	return a.writeEvent("", v)
}

// writeEvent writes an event. Without a name it has the default type, message. The caller holds a.mu.
func (a *answer) writeEvent(name string, v any) error {
	a.writeHead(Events)
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	if _, err := fmt.Fprintf(a.w, "%sdata: %s\n\n", name, gitquote.EscapeJSON(b)); err != nil || !a.flushesEvents {
		return err
	}

	return a.controller.Flush()
}

// sendProgress sends an event with the progress of the work, at most ten times a second.
func (a *answer) sendProgress(p Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()

	now := time.Now()
	if !a.acceptsEvents || now.Sub(a.lastProgressAt) < 100*time.Millisecond && (p.Total == 0 || p.Done < p.Total) {
		return
	}

	a.lastProgressAt = now
	_ = a.writeEvent("progress", p) // an error means that the client has closed the connection, which ends the request's context
}

// sendResult sends the result or the error, in the form that the client expects.
func (a *answer) sendResult(result any, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch events := a.op.Output == "" || a.op.Output == Events; {
	case err != nil && !a.headSent:
		writeError(a.w, err)
	case a.op.Output == "" && !a.headSent:
		writeJSON(a.w, http.StatusOK, result)
	case events && err != nil:
		_ = a.writeEvent("error", errs.ErrorOf(err))
	case a.op.Output == "":
		_ = a.writeEvent("result", result)
	default:
		a.writeHead(a.op.Output)
		if events {
			return
		}

		name := ResultTrailer
		if err != nil {
			name, result = ErrorTrailer, errs.ErrorOf(err)
		}

		b, err := json.Marshal(result)
		if err != nil {
			return
		}
		a.w.Header().Set(name, string(b))
	}
}
