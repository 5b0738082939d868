package service

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/internal/descriptors"
)

// SocketName is the name of the socket in the folder of a store.
const SocketName = "socket"

// socketPath returns a short path of the socket in the store dir, because the address of a socket has at most
// 107 bytes. The path is valid until release is called.
func socketPath(dir string) (path string, release func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(fd), SocketName), func() { unix.Close(fd) }, nil
}

// listen creates the socket of a store at a path, for its owner alone. It replaces a socket that a dead
// daemon left. The caller has locked the store, so no living daemon uses the socket.
func listen(path string) (*net.UnixListener, error) {
	if st, err := os.Lstat(path); err == nil && st.Mode().Type() == os.ModeSocket {
		if err := unix.Unlink(path); err != nil {
			return nil, err
		}
	}

	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}

	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}

	return l, nil
}

// Dial connects to the daemon of a store. The error is of the kind NotExist if no daemon answers, and
// of the kind Perm if the caller is not the owner of the store.
func Dial(ctx context.Context, dir string) (*net.UnixConn, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, errs.Fail(errs.ScriptKind(err), "cannot reach the store %s: %w", dir, err)
	}
	defer release()

	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return c.(*net.UnixConn), nil
	case errors.Is(err, os.ErrPermission):
		return nil, errs.Fail(errs.Perm, "only the user that mounted the store %s, or root, can control it", dir).WithCause(err)
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return nil, errs.Fail(errs.NotExist, "no daemon answers for the store %s", dir).
			WithHint("mount it with `amberfs mount %s MOUNTPOINT`", dir).WithCause(err)
	}

	return nil, errs.Fail(errs.Failed, "cannot reach the daemon of the store %s: %w", dir, err)
}

// PeerCredentials returns the credentials of the process at the other end of a connection.
func PeerCredentials(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}

	var cred *unix.Ucred
	var cerr error
	err = raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, cerr); err != nil {
		return nil, fmt.Errorf("asking who is connected: %w", err)
	}

	return cred, nil
}

// Several runs of `amberfs run` on one store share its daemon. Each run has a connection to the socket, on
// which the daemon sends a copy of the mount for the mount namespace of the run. The open connection counts
// as a user of the mount. HTTP cannot send a descriptor, so the daemon takes the connection from the HTTP
// server after the request.

const joinPath = "/join"

// JoinHooks are the functions of a daemon that count the users of the mount. Each joined program is a user.
type JoinHooks struct {
	// Join counts a user of the mount. It fails if options differs from the options of the mount, unless options is
	// "". mountCopy is a detached copy of the mount, or nil.
	Join func(options string) (mountCopy *os.File, err error)
	// Leave subtracts a user of the mount. It returns true if that was the last user, and so the daemon ends now.
	Leave func() (ends bool)
	// Hold, if set, makes the connection of a program outlive the daemon. The caller calls joined when the client
	// has its answer, and left when the connection is not needed any more.
	Hold func(c *net.UnixConn, fork string) (joined, left func())
}

// Joins are the programs that share the daemon.
type Joins struct {
	JoinHooks
	log            *slog.Logger
	mountpoint     string
	mu             sync.Mutex     // guards programsByFork
	programsByFork map[string]int // the number of programs that joined for each fork
	// lastConn is the connection of the program that left last. It stays open until this process ends, see
	// awaitLeave.
	lastConn atomic.Pointer[net.UnixConn]
}

// A JoinConnection is the client's end of a connection that keeps a shared daemon in use.
type JoinConnection struct {
	Conn      *os.File // at EOF, the daemon has ended or has seen that the client shut its side down
	MountCopy *os.File // a detached copy of the mount; if nil, the caller copies the mount at Mountpoint
	// Mountpoint is the mount point of the daemon.
	Mountpoint string
}

// join answers a request of the function Join, and keeps the connection of the request.
func (srv *Server) join(w http.ResponseWriter, r *http.Request) error {
	if err := srv.service.Mount.WaitReady(r.Context()); err != nil { // the mount is ending
		return errs.Fail(errs.NotExist, "%w", err)
	}

	js := srv.service.Joins
	mountCopy, err := js.Join(r.URL.Query().Get("options"))
	if err != nil {
		return err
	}

	fork := r.URL.Query().Get("fork")
	hijacked, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		js.Leave()
		js.log.Warn("join", "err", err)
		return nil
	}

	c := hijacked.(*descriptors.Receiver).UnixConn
	joined, left := func() {}, func() {}
	if js.Hold != nil {
		joined, left = js.Hold(c, fork)
	}

	js.addPrograms(fork, 1)
	if err := js.sendAnswer(c, mountCopy); err != nil {
		js.log.Warn("join", "err", err)
	}

	joined()
	go js.awaitLeave(c, fork, left)

	return nil
}

// awaitLeave waits until a joined program leaves, and then subtracts it.
func (js *Joins) awaitLeave(c *net.UnixConn, fork string, left func()) {
	_, _ = io.Copy(io.Discard, c) // until the client shuts its side down, or the server ends
	js.addPrograms(fork, -1)

	if js.Leave() {
		// The client waits for EOF. The connection stays open, so that EOF arrives at the end of this
		// process.
		js.lastConn.Store(c)
		return
	}

	left()
	c.Close()
}

// Rejoin counts a program that joined the previous daemon. f is its connection. The caller has counted the program
// as a user of the mount.
func (js *Joins) Rejoin(f *os.File, fork string, left func()) error {
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return err
	}

	js.addPrograms(fork, 1)
	go js.awaitLeave(conn.(*net.UnixConn), fork, left)

	return nil
}

// addPrograms adds n to the number of programs that joined for a fork.
func (js *Joins) addPrograms(fork string, n int) {
	js.mu.Lock()
	defer js.mu.Unlock()
	js.programsByFork[fork] += n
}

// programCount returns the number of programs that joined for a fork.
func (js *Joins) programCount(fork string) int {
	js.mu.Lock()
	defer js.mu.Unlock()
	return js.programsByFork[fork]
}

// sendAnswer sends the answer to a request of Join, with the descriptor of mountCopy if that is not nil.
func (js *Joins) sendAnswer(c *net.UnixConn, mountCopy *os.File) error {
	var rights []byte
	if mountCopy != nil {
		defer mountCopy.Close()
		rights = unix.UnixRights(int(mountCopy.Fd()))
	}

	text := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: amberfs-join\r\nMountpoint: " + url.PathEscape(js.mountpoint) + "\r\n\r\n"
	_, _, err := c.WriteMsgUnix([]byte(text), rights, nil)
	return err
}

// Join joins the daemon of the store dir as a user of a fork, or of main if fork is "". The error is
// of the kind NotExist if no daemon answers. ctx ends the wait for the answer.
func Join(ctx context.Context, dir, options, fork string) (*JoinConnection, error) {
	conn, err := Dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()

	_, err = fmt.Fprintf(conn, "POST %s?options=%s&fork=%s HTTP/1.1\r\nHost: amberfs\r\n\r\n", joinPath, url.QueryEscape(options), url.QueryEscape(fork))
	if err != nil {
		return nil, errDaemonEnded(dir, err)
	}

	head, rights := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(4))
	n, got, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil || n == 0 {
		return nil, errDaemonEnded(dir, err)
	}

	j := &JoinConnection{MountCopy: receivedFile(rights[:got])}
	if err := j.readAnswer(head[:n], conn); err != nil {
		j.Close()
		return nil, err
	}

	if j.Conn, err = conn.File(); err != nil {
		j.Close()
		return nil, err
	}

	return j, nil
}

// readAnswer reads the answer of the daemon. head is the part of the answer that was read already.
func (j *JoinConnection) readAnswer(head []byte, conn net.Conn) error {
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(head), conn)), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusSwitchingProtocols {
		refused := &errs.Error{}
		if err := json.NewDecoder(resp.Body).Decode(refused); err != nil {
			return errs.Fail(errs.Failed, "reading the daemon's answer: %w", err)
		}

		return refused
	}

	j.Mountpoint, err = url.PathUnescape(resp.Header.Get("Mountpoint"))
	return err
}

// errDaemonEnded returns the error for a daemon that ended before it answered.
func errDaemonEnded(dir string, err error) error {
	return errs.Fail(errs.NotExist, "the daemon of the store %s ended before it answered: %w", dir, err)
}

// receivedFile returns the file of the descriptor in the control data of a message, nil if there is no descriptor.
func receivedFile(rights []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return nil
	}

	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return nil
	}

	unix.CloseOnExec(fds[0])

	return os.NewFile(uintptr(fds[0]), "mount")
}

// Close closes the connection and the copy of the mount.
func (j *JoinConnection) Close() {
	j.Conn.Close() // for a nil file, Close only returns an error
	j.MountCopy.Close()
}

// Leave reports to the daemon that the program no longer uses the mount. It returns true if the daemon ends within
// maxMillis milliseconds.
func (j *JoinConnection) Leave(maxMillis int) bool {
	_ = unix.Shutdown(int(j.Conn.Fd()), unix.SHUT_WR)
	return j.WaitEnded(maxMillis)
}

// WaitEnded waits for the end of the daemon, but at most maxMillis milliseconds. It returns true if the daemon has
// ended.
func (j *JoinConnection) WaitEnded(maxMillis int) bool {
	for end := time.Now().Add(time.Duration(maxMillis) * time.Millisecond); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(j.Conn.Fd()), Events: unix.POLLIN}}, max(0, int(time.Until(end).Milliseconds())))
		if !errors.Is(err, unix.EINTR) { // a signal, such as SIGCHLD, interrupts the wait
			return err == nil && n > 0
		}
	}
}
