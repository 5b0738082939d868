package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
)

// SocketName is the socket's name in the store.
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

// Dial connects to the daemon of the store dir. When none answers the error is
// of kind NotFound.
func Dial(ctx context.Context, dir string) (*net.UnixConn, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot reach the store %s: %w", dir, err)
	}
	defer release()
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return c.(*net.UnixConn), nil
	case errors.Is(err, os.ErrPermission):
		e := fail.New(fail.Denied, "only the user who mounted the store %s, or root, may control it", dir)
		e.Err = err
		return nil, e
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		e := fail.New(fail.NotFound, "no daemon answers for the store %s", dir).
			WithHint("mount it with `amberfs mount %s MOUNTPOINT`", dir)
		e.Err = err
		return nil, e
	}
	return nil, fail.New(fail.Failed, "cannot reach the daemon of the store %s: %w", dir, err)
}

// Peer asks the kernel who is at the other end of a connection.
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
