// Package descriptors sends open files over the socket of a store. The descriptors are sent beside the bytes of a
// request, so that the daemon reads the contents of large files itself, which the client may read.
//
// Imported by: service, service/client.
package descriptors

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// most is the largest number of descriptors that wait to be sent, and in one message. The kernel allows 253.
const most = 64

// mostReceived is the largest number of received descriptors that wait for Next. A client sends at most one message
// with descriptors for each buffer of its connection, so few of them wait.
const mostReceived = 8 * most

// local are the file systems whose files can be sent. A daemon that reads a file of another one could wait for a
// network, or for itself.
var local = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// isLocal reports whether a descriptor is a regular file on one of the local file systems.
func isLocal(fd int) bool {
	var st unix.Stat_t
	var system unix.Statfs_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		unix.Fstatfs(fd, &system) == nil && slices.Contains(local, system.Type)
}

// A Sender has the descriptors that wait to be sent with the next bytes of one request.
type Sender struct {
	mu      sync.Mutex
	waiting []int
}

// Add adds a duplicate of a descriptor. It returns false if the file cannot be sent.
func (s *Sender) Add(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.waiting) == most || !isLocal(fd) {
		return false
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		s.waiting = append(s.waiting, own)
	}

	return err == nil
}

// Close closes the descriptors that were not sent.
func (s *Sender) Close() { closeAll(s.take()) }

func (s *Sender) take() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	fds := s.waiting
	s.waiting = nil
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Conn returns a connection that sends the descriptors.
func (s *Sender) Conn(c *net.UnixConn) net.Conn { return &sendingConn{c, s} }

type sendingConn struct {
	*net.UnixConn
	sender *Sender
}

// Write sends bytes, and with the first of them the descriptors that wait.
func (c *sendingConn) Write(b []byte) (n int, err error) {
	if fds := c.sender.take(); len(fds) > 0 {
		n, _, err = c.WriteMsgUnix(b, unix.UnixRights(fds...), nil)
		closeAll(fds)
		if err != nil || n == len(b) {
			return max(n, 0), err
		}
	}

	rest, err := c.UnixConn.Write(b[n:])
	return n + rest, err
}

// A Receiver is a connection that receives descriptors.
type Receiver struct {
	*net.UnixConn
	mu      sync.Mutex
	waiting []int
	closed  bool
}

// Read implements net.Conn.
func (r *Receiver) Read(b []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4*most))
	n, got, flags, _, err := r.ReadMsgUnix(b, rights)
	if errors.Is(err, io.EOF) {
		return 0, io.EOF // without the address that net adds
	}
	if got > 0 {
		err = errors.Join(err, r.add(rights[:got]))
	}
	if flags&unix.MSG_CTRUNC != 0 {
		err = errors.Join(err, errs.New(errs.Failed, "a message has more open files than this process can receive"))
	}

	return max(n, 0), err
}

// add adds the descriptors of a message.
func (r *Receiver) add(rights []byte) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return fmt.Errorf("receiving open files: %w", err)
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fmt.Errorf("receiving open files: %w", err)
		}
		if r.closed || len(r.waiting)+len(fds) > mostReceived {
			closeAll(fds)
			return errs.New(errs.Invalid, "over %d open files were sent that belong to no entry", mostReceived)
		}

		r.waiting = append(r.waiting, fds...)
	}

	return nil
}

// Next returns the file that was received first. The caller closes it.
func (r *Receiver) Next() (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.waiting) == 0 {
		return nil, fmt.Errorf("an open file is missing: %w", io.ErrUnexpectedEOF)
	}
	fd := r.waiting[0]
	r.waiting = r.waiting[1:]

	if !isLocal(fd) {
		_ = unix.Close(fd)
		return nil, errs.New(errs.Invalid, "an open file was sent that is no regular file of a local file system")
	}

	return os.NewFile(uintptr(fd), "received"), nil
}

// Close implements net.Conn.
func (r *Receiver) Close() error {
	r.mu.Lock()
	closeAll(r.waiting)
	r.waiting, r.closed = nil, true
	r.mu.Unlock()
	return r.UnixConn.Close()
}
