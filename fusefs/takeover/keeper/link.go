package keeper

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/errs"
)

// linkEnv is the environment variable with the descriptor of the daemon's end of the socket pair.
const linkEnv = "_AMBERFS_KEEPER_FD"

// A Link is a daemon's connection to its keeper.
type Link struct {
	Start
	// Device, Lock and Socket are descriptors from the keeper, valid if Connection is set. They
	// belong to the caller.
	Device, Lock, Socket int
	Conns                []*os.File // the connections of Users, in their order

	socket         int
	connectionSent bool          // the keeper has received this daemon's Connection
	mu             sync.Mutex    // guards lastUserID, and serializes messages to the keeper
	lastUserID     int           // the highest ID that a user has got
	acks           chan struct{} // receives a value when the keeper has received the Connection
	keeperEnded    chan struct{} // closed when the keeper has ended
}

// InheritedLink returns the link to the keeper that started this process, nil if no keeper did.
func InheritedLink() (*Link, error) {
	fd, err := strconv.Atoi(os.Getenv(linkEnv))
	if err != nil {
		return nil, nil
	}

	os.Unsetenv(linkEnv)
	unix.CloseOnExec(fd)
	l := &Link{socket: fd, acks: make(chan struct{}, 1), keeperEnded: make(chan struct{})}
	fds, err := receive(fd, &l.Start)
	if err != nil {
		return nil, l.Fail(fmt.Errorf("reading from the keeper: %w", err))
	}

	if l.Connection != nil {
		if len(fds) != maxFDs {
			return nil, errors.New("the keeper sent no device")
		}
		l.Device, l.Lock, l.Socket = fds[0], fds[1], fds[2]
	}

	for range l.UserCount {
		var u User
		fds, err := receive(fd, &u)
		if err != nil {
			return nil, l.Fail(fmt.Errorf("reading a user's connection from the keeper: %w", err))
		}
		if len(fds) != 1 {
			return nil, l.Fail(errors.New("the keeper sent no connection of a user"))
		}

		l.Users = append(l.Users, u)
		l.Conns = append(l.Conns, os.NewFile(uintptr(fds[0]), "connection"))
		l.lastUserID = max(l.lastUserID, u.ID)
	}

	go l.watch()

	return l, nil
}

// Fail sends the keeper the reason why this process does not become ready. It returns err.
func (l *Link) Fail(err error) error {
	l.Send(Message{Failure: &Failure{Reason: err.Error(), Shortage: errs.IsShortage(err)}})
	return err
}

// watch reads the messages that the keeper sends after the Start. Its thread does nothing else, so that this
// thread ends at once when the process is killed (see Message.Thread).
func (l *Link) watch() {
	defer close(l.keeperEnded)
	callOnOwnThread(func() {
		l.Send(Message{Thread: unix.Gettid()})

		for {
			var m struct{}
			_, err := receive(l.socket, &m)
			if err != nil {
				return
			}
			l.acks <- m
		}
	})
}

// callOnOwnThread calls fn on a thread that runs no other goroutine during the call. The thread is never the
// first thread of the process: Linux reports the end of the first thread only when all other threads have
// ended.
func callOnOwnThread(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if unix.Gettid() != unix.Getpid() {
		fn()
		return
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		callOnOwnThread(fn)
	}()
	<-done
}

// KeeperEnded returns a channel that is closed when the keeper has ended. From then on a crash of the daemon ends the
// mount.
func (l *Link) KeeperEnded() <-chan struct{} { return l.keeperEnded }

// KeeperHasConnection reports whether the keeper has the Connection, and so starts another daemon after this one
// dies. l may be nil.
func (l *Link) KeeperHasConnection() bool {
	return l != nil && (l.connectionSent || l.Connection != nil)
}

// SendConnection sends the keeper a Connection with its descriptors, and waits until the keeper has received it. After
// SendConnection has returned, a crash of the daemon is only a pause for programs.
func (l *Link) SendConnection(c *Connection, device, lock, socket int) error {
	if err := l.send(Message{Connection: c}, device, lock, socket); err != nil {
		return err
	}

	select {
	case <-l.acks:
		l.connectionSent = true
		return nil
	case <-l.keeperEnded:
		return io.ErrUnexpectedEOF
	}
}

// Send sends a message to the keeper. It does nothing if l is nil, as there is no keeper. It ignores errors,
// which mean that the keeper has ended, see KeeperEnded.
func (l *Link) Send(m Message) {
	if l != nil {
		_ = l.send(m)
	}
}

// AddUser gives a user an ID, and sends the keeper the user with its connection.
func (l *Link) AddUser(u *User, conn int) error {
	l.mu.Lock()
	l.lastUserID++
	u.ID = l.lastUserID
	l.mu.Unlock()
	return l.send(Message{User: u}, conn)
}

func (l *Link) send(m Message, fds ...int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return send(l.socket, m, fds...)
}
