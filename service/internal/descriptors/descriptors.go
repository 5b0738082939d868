// Package descriptors sends open files over the socket of a store. The descriptors are sent together with bytes of a
// request. So the daemon itself reads the contents of large files that the client may read.
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

// maxDescriptors is the largest number of descriptors that wait to be sent, and of descriptors in one message. The
// kernel allows 253 in a message.
const maxDescriptors = 64

// maxWaitingReceived is the largest number of received descriptors that wait for Next. A client sends at most one
// message with descriptors for each buffer of its connection, so few descriptors wait.
const maxWaitingReceived = 8 * maxDescriptors

// localFileSystems are the types of the file systems whose files can be sent. A daemon that reads a file of another
// file system could wait for a network, or for itself.
var localFileSystems = []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC}

// isLocalFile reports whether a descriptor is of a regular file on one of the localFileSystems.
func isLocalFile(fd int) bool {
	var st unix.Stat_t
	var system unix.Statfs_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
		unix.Fstatfs(fd, &system) == nil && slices.Contains(localFileSystems, system.Type)
}

// A Sender has the descriptors that wait to be sent with the next bytes of one request.
type Sender struct {
	mu         sync.Mutex
	waitingFDs []int
}

// Add adds a duplicate of a descriptor, so that the caller can close the descriptor. It returns false if the file
// cannot be sent.
func (s *Sender) Add(fd int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()

	if len(s.waitingFDs) == maxDescriptors || !isLocalFile(fd) {
		return false
	}
	duplicate, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		s.waitingFDs = append(s.waitingFDs, duplicate)
	}

	return err == nil
}

// Close closes the descriptors that were not sent.
func (s *Sender) Close() { closeAll(s.takeWaiting()) }

// takeWaiting removes all waiting descriptors from the Sender, and returns them.
func (s *Sender) takeWaiting() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	fds := s.waitingFDs
	s.waitingFDs = nil
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// Conn returns a connection that sends the descriptors with the bytes that are written to it.
func (s *Sender) Conn(c *net.UnixConn) net.Conn { return &sendingConn{c, s} }

type sendingConn struct {
	*net.UnixConn
	sender *Sender
}

// Write sends bytes, and with the first of them the descriptors that wait.
func (c *sendingConn) Write(b []byte) (n int, err error) {
	if fds := c.sender.takeWaiting(); len(fds) > 0 {
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
	mu         sync.Mutex
	waitingFDs []int
	isClosed   bool
}

// Read implements net.Conn.
func (r *Receiver) Read(b []byte) (int, error) {
	rights := make([]byte, unix.CmsgSpace(4*maxDescriptors))
	n, got, flags, _, err := r.ReadMsgUnix(b, rights)
	if errors.Is(err, io.EOF) {
		return 0, io.EOF // io.EOF itself: readers compare with it, and net wraps it in an error with the address
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
		if r.isClosed || len(r.waitingFDs)+len(fds) > maxWaitingReceived {
			closeAll(fds)
			return errs.New(errs.Invalid, "over %d open files were sent that belong to no entry", maxWaitingReceived)
		}

		r.waitingFDs = append(r.waitingFDs, fds...)
	}

	return nil
}

// Next returns the file that was received first. The caller closes it.
func (r *Receiver) Next() (*os.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if len(r.waitingFDs) == 0 {
		return nil, fmt.Errorf("an open file is missing: %w", io.ErrUnexpectedEOF)
	}
	fd := r.waitingFDs[0]
	r.waitingFDs = r.waitingFDs[1:]

	if !isLocalFile(fd) {
		_ = unix.Close(fd)
		return nil, errs.New(errs.Invalid, "an open file was sent that is no regular file of a local file system")
	}

	return os.NewFile(uintptr(fd), "received"), nil
}

// Close implements net.Conn.
func (r *Receiver) Close() error {
	r.mu.Lock()
	closeAll(r.waitingFDs)
	r.waitingFDs, r.isClosed = nil, true
	r.mu.Unlock()
	return r.UnixConn.Close()
}
