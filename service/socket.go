package service

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
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

const SocketName = "socket"

// socketPath gives a name for the socket of the store dir that is short whatever
// dir is, good until release is called: a socket address holds 107 bytes.
func socketPath(dir string) (path string, release func(), err error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return filepath.Join("/proc/self/fd", strconv.Itoa(fd), SocketName), func() { unix.Close(fd) }, nil
}

// listen makes the socket of a store, for its owner alone. A socket that a dead
// daemon left is replaced: the caller holds the store's lock.
func listen(dir string) (l *net.UnixListener, release func(), err error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("making the socket: %w", err)
	}
	if st, serr := os.Lstat(path); serr == nil && st.Mode().Type() == os.ModeSocket {
		err = unix.Unlink(path)
	}
	if err == nil {
		l, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	}
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if err != nil {
		if l != nil {
			l.Close()
		}
		release()
		return nil, nil, fmt.Errorf("making the socket in %s: %w", dir, err)
	}
	return l, release, nil
}

// Dial connects to the daemon of a store. The error is NotFound if none answers.
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
		e := errs.Fail(errs.Perm, "only the user that mounted the store %s, or root, can control it", dir)
		e.Err = err
		return nil, e
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		e := errs.Fail(errs.NotExist, "no daemon answers for the store %s", dir).
			WithHint("mount it with `amberfs mount %s MOUNTPOINT`", dir)
		e.Err = err
		return nil, e
	}
	return nil, errs.Fail(errs.Failed, "cannot reach the daemon of the store %s: %w", dir, err)
}

func Peer(c *net.UnixConn) (*unix.Ucred, error) {
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

// Several `run` on one store share its daemon. Each has a connection to the socket, on
// which the daemon sends a copy of the mount for the mount namespace of that `run`. The
// connection counts as a user of the mount for as long as it is open. A descriptor cannot
// be sent with HTTP, so the connection is taken from the server after the request.

const joinPath = "/join"

// Joining is what a daemon does for joined programs.
type Joining struct {
	// Join counts a user of the mount, with these options; "" for any. tree is a detached copy
	// of the mount, or nil.
	Join func(options string) (tree *os.File, err error)
	// Leave ends what Join began, and reports whether the daemon ends with that.
	Leave func() (ends bool)
	// Hold, if set, has the connection outlive the daemon. joined is called when the client has
	// its answer, and left when the connection is not needed any more.
	Hold func(c *net.UnixConn, fork string) (joined, left func())
}

// Joined is a connection that keeps a shared daemon in use.
type Joined struct {
	Conn *os.File // EOF: the daemon has ended, or has noticed that the other side is shut down
	Tree *os.File // a detached copy of the mount; nil: the caller copies what is at Mountpoint
	// Mountpoint is that of the daemon.
	Mountpoint string
}

func (s *Service) join(w http.ResponseWriter, r *http.Request) {
	_, err := ownerOfStore(r)
	if err == nil {
		if err = s.Ready(r.Context()); err != nil {
			err = errs.Fail(errs.NotExist, "%w", err) // it is ending
		}
	}
	var tree *os.File
	if err == nil {
		tree, err = s.Joining.Join(r.URL.Query().Get("options"))
	}
	if err != nil {
		writeError(w, err)
		return
	}
	fork := r.URL.Query().Get("fork")
	hijacked, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.Joining.Leave()
		s.Log.Warn("join", "err", err)
		return
	}
	c := hijacked.(*net.UnixConn)
	joined, left := func() {}, func() {}
	if s.Joining.Hold != nil {
		joined, left = s.Joining.Hold(c, fork)
	}
	s.use(fork, 1)
	if err := s.sendTree(c, tree); err != nil {
		s.Log.Warn("join", "err", err)
	}
	joined()
	go s.joined(c, fork, left)
}

// joined waits for the end of a joined program.
func (s *Service) joined(c *net.UnixConn, fork string, left func()) {
	_, _ = io.Copy(io.Discard, c) // until the client shuts its side down, or the server ends
	s.use(fork, -1)
	if s.Joining.Leave() {
		// The client waits until the daemon has ended: its end closes the connection.
		s.last.Store(c)
		return
	}
	left()
	c.Close()
}

// Rejoin counts a program that joined the daemon before. The caller has counted it as a user
// of the mount.
func (s *Service) Rejoin(f *os.File, fork string, left func()) error {
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		return err
	}
	s.use(fork, 1)
	go s.joined(conn.(*net.UnixConn), fork, left)
	return nil
}

// use counts the programs that joined for a fork.
func (s *Service) use(fork string, n int) (now int) {
	s.usedMu.Lock()
	defer s.usedMu.Unlock()
	if s.used == nil {
		s.used = make(map[string]int)
	}
	s.used[fork] += n
	return s.used[fork]
}

func (s *Service) sendTree(c *net.UnixConn, tree *os.File) error {
	var rights []byte
	if tree != nil {
		defer tree.Close()
		rights = unix.UnixRights(int(tree.Fd()))
	}
	text := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: amberfs-join\r\nMountpoint: " + url.PathEscape(s.Mountpoint) + "\r\n\r\n"
	_, _, err := c.WriteMsgUnix([]byte(text), rights, nil)
	return err
}

// Join joins the daemon of the store dir, for a fork or for "". The error is of kind NotFound
// if none answers.
func Join(ctx context.Context, dir, options, fork string) (*Joined, error) {
	conn, err := Dial(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err = fmt.Fprintf(conn, "POST %s?options=%s&fork=%s HTTP/1.1\r\nHost: amberfs\r\n\r\n", joinPath, url.QueryEscape(options), url.QueryEscape(fork))
	if err != nil {
		return nil, ended(dir, err)
	}
	head, rights := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(4))
	n, got, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil || n == 0 {
		return nil, ended(dir, err)
	}
	j := &Joined{Tree: received(rights[:got])}
	if err := j.read(head[:n], conn); err != nil {
		j.Close()
		return nil, err
	}
	if j.Conn, err = conn.File(); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

func (j *Joined) read(head []byte, conn net.Conn) error {
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

// ended is the error for a daemon that ended before it answered.
func ended(dir string, err error) error {
	return errs.Fail(errs.NotExist, "the daemon of the store %s ended before it answered: %w", dir, err)
}

// received is the descriptor that came with a message; nil if there was none.
func received(rights []byte) *os.File {
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

func (j *Joined) Close() {
	for _, f := range []*os.File{j.Conn, j.Tree} {
		if f != nil {
			f.Close()
		}
	}
}

// Leave tells the daemon that the program no longer uses the mount. It reports whether the daemon
// ended within wait milliseconds.
func (j *Joined) Leave(wait int) bool {
	_ = unix.Shutdown(int(j.Conn.Fd()), unix.SHUT_WR)
	return j.Ended(wait)
}

// Ended waits up to wait milliseconds for the end of the daemon, and reports it.
func (j *Joined) Ended(wait int) bool {
	for end := time.Now().Add(time.Duration(wait) * time.Millisecond); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(j.Conn.Fd()), Events: unix.POLLIN}}, max(0, int(time.Until(end).Milliseconds())))
		if !errors.Is(err, unix.EINTR) { // the end of a child interrupts it
			return err == nil && n > 0
		}
	}
}
