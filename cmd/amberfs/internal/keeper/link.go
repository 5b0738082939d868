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

// linkEnv names the descriptor of a daemon's end of the socket pair in its environment.
const linkEnv = "_AMBERFS_KEEPER_FD"

// A Link is a daemon's side of its keeper.
type Link struct {
	Start
	// With a Connection: what was held. The descriptors belong to the caller.
	Device, Lock, Socket int
	Conns                []*os.File // of Users

	socket int
	holds  bool // the keeper holds a connection
	mu     sync.Mutex
	last   int           // the newest ID of a user
	held   chan struct{} // gets a value when the keeper holds a Connection
	lost   chan struct{} // closed when the keeper is gone
}

// Inherited returns the link to the keeper that started this process, nil if none did.
func Inherited() (*Link, error) {
	fd, err := strconv.Atoi(os.Getenv(linkEnv))
	if err != nil {
		return nil, nil
	}

	os.Unsetenv(linkEnv)
	unix.CloseOnExec(fd)
	l := &Link{socket: fd, held: make(chan struct{}, 1), lost: make(chan struct{})}
	files, err := receive(fd, &l.Start)
	if err != nil {
		return nil, l.Fail(fmt.Errorf("reading from the keeper: %w", err))
	}

	if l.Connection != nil {
		if len(files) != maxFiles {
			return nil, errors.New("the keeper sent no device")
		}
		l.Device, l.Lock, l.Socket = files[0], files[1], files[2]
	}

	for range l.UserCount {
		var u User
		files, err := receive(fd, &u)
		if err == nil && len(files) != 1 {
			err = errors.New("the keeper sent no connection")
		}
		if err != nil {
			return nil, l.Fail(fmt.Errorf("reading a user's connection from the keeper: %w", err))
		}

		l.Users = append(l.Users, u)
		l.Conns = append(l.Conns, os.NewFile(uintptr(files[0]), "connection"))
		l.last = max(l.last, u.ID)
	}

	go l.watch()

	return l, nil
}

// Fail tells the keeper why this process does not become ready. It returns the error.
func (l *Link) Fail(err error) error {
	l.Send(Message{Failed: &Failure{Reason: err.Error(), Shortage: errs.Shortage(err)}})
	return err
}

// watch reads what the keeper sends after the Start. Its thread does nothing else, so that it ends
// at once when the process is killed.
func (l *Link) watch() {
	defer close(l.lost)
	apart(func() {
		l.Send(Message{Thread: unix.Gettid()})

		for {
			var m struct{}
			_, err := receive(l.socket, &m)
			if err != nil {
				return
			}
			l.held <- m
		}
	})
}

// apart calls fn on a thread that does nothing else meanwhile. That is never the first thread of the
// process: Linux reports the end of that only when all others have ended.
func apart(fn func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	if unix.Gettid() != unix.Getpid() {
		fn()
		return
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		apart(fn)
	}()
	<-done
}

// Lost is closed when the keeper is gone: then a crash ends the mount.
func (l *Link) Lost() <-chan struct{} { return l.lost }

// Holds reports whether the keeper holds a connection: it starts another daemon after this one then.
func (l *Link) Holds() bool { return l != nil && (l.holds || l.Connection != nil) }

// Hold has the keeper hold a connection. From its return on a crash is a pause.
func (l *Link) Hold(c *Connection, device, lock, socket int) error {
	if err := l.send(Message{Connection: c}, device, lock, socket); err != nil {
		return err
	}

	select {
	case <-l.held:
		l.holds = true
		return nil
	case <-l.lost:
		return io.ErrUnexpectedEOF
	}
}

// Send sends a message. It does nothing if the keeper is gone.
func (l *Link) Send(m Message) { _ = l.send(m) }

// Add has the keeper hold the connection of a user.
func (l *Link) Add(u *User, conn int) error {
	l.mu.Lock()
	l.last++
	u.ID = l.last
	l.mu.Unlock()
	return l.send(Message{User: u}, conn)
}

func (l *Link) send(m Message, files ...int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return send(l.socket, m, files...)
}
