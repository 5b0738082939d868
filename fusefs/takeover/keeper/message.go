package keeper

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Connection describes a mount that outlives its daemon.
type Connection struct {
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
	// Init is the kernel's first request, INIT, and Answer is its answer.
	Init   []byte `json:"init"`
	Answer []byte `json:"answer"`
	// MadeDirs are directories that the daemons created, and that the last daemon removes at the end of the mount.
	// NudgeMtime is fusefs.Options.NudgeMtime.
	MadeDirs   []string `json:"made,omitempty"`
	NudgeMtime int64    `json:"nudge"`
}

// A State is the state of a User.
type State string

const (
	Joining   State = "joining"   // an `amberfs run` that has no answer yet
	Joined    State = "joined"    // an `amberfs run` that uses the mount
	Upgrading State = "upgrading" // an `amberfs upgrade` that waits for its end
)

// A User is a client's connection to a daemon that is passed on to the next daemon.
type User struct {
	ID    int    `json:"id"`
	Fork  string `json:"fork,omitempty"`
	State State  `json:"state"`
}

// A Start is the first message of the keeper to a daemon. If it has a Connection, the descriptors of the
// device, the lock and the socket are sent with it. A message for each user follows, with the descriptor
// of its connection.
type Start struct {
	Background bool        `json:"background"` // keeper and daemon have no terminal
	Connection *Connection `json:"connection,omitempty"`
	Users      []User      `json:"users,omitempty"` // sent in separate messages, because their number is not limited
	UserCount  int         `json:"user_count,omitempty"`
	// Poison are the numbers of requests that daemons died of: the daemon answers them with EIO. Suspects may
	// be poison: the daemon carries them out one at a time.
	Poison   []uint64 `json:"poison,omitempty"`
	Suspects []uint64 `json:"suspects,omitempty"`
	// FrozenUntil is the time at which the present freeze (of all changes in the store) will end. ThawedAt is the
	// time at which the death of a daemon ended a freeze early.
	FrozenUntil time.Time `json:"frozen,omitzero"`
	ThawedAt    time.Time `json:"thawed,omitzero"`
	// Frugal is set after daemons were killed before they were ready, see snapshot.Options.
	Frugal bool `json:"frugal,omitempty"`
	// Restarts counts the daemons before this one. Reason is how the last of them ended. DiedAt is when the
	// last daemon that was ready died.
	Restarts int       `json:"restarts"`
	Reason   string    `json:"reason,omitempty"`
	DiedAt   time.Time `json:"died,omitzero"`
	// Upgraded is set after an upgrade. RefusalReason is the reason why the new program did not become ready, "" if
	// it did.
	Upgraded      bool   `json:"upgraded,omitempty"`
	RefusalReason string `json:"refused,omitempty"`
}

// A Message is sent by a daemon to its keeper. One field is set.
type Message struct {
	Connection *Connection `json:"connection,omitempty"` // with the device, the lock and the socket
	Ready      bool        `json:"ready,omitempty"`      // the daemon answers the requests of the mount
	Ending     bool        `json:"ending,omitempty"`     // the mount will end with this daemon
	// ServiceState is the state of the daemon for the service manager, as for sd_notify(3).
	ServiceState string   `json:"notify,omitempty"`
	User         *User    `json:"user,omitempty"` // a new user, with its connection, or a new state of a user
	LeftUser     int      `json:"left,omitempty"` // the ID of a user that has left
	MadeDirs     []string `json:"made,omitempty"` // Connection.MadeDirs
	// BegunRequest is the number of a request, sent again by the kernel, that the daemon begins to carry out.
	// AnsweredRequest is the number of such a request that the daemon has answered.
	BegunRequest    uint64 `json:"began,omitempty"`
	AnsweredRequest uint64 `json:"answered,omitempty"`
	UpgradeTo       string `json:"upgrade,omitempty"` // the path of the program to upgrade to
	// Thread is the id of a thread of the daemon that only waits for the keeper. When the daemon is
	// killed, this thread ends at once.
	Thread      int        `json:"thread,omitempty"`
	Failure     *Failure   `json:"failed,omitempty"` // why this daemon does not become ready
	FrozenUntil *time.Time `json:"frozen,omitempty"` // when the freeze will end; the zero time after a thaw
}

// A Failure is the reason why a daemon could not take over.
type Failure struct {
	Reason string `json:"reason"`
	// Shortage is set if a resource was missing that may become available, such as space on the disk.
	Shortage bool `json:"shortage,omitempty"`
}

// Version is the version of the messages between keeper and daemon, and of the state that a keeper passes to
// a program that it executes.
const Version = 4

const (
	maxMessageBytes = 160 << 10 // smaller than the buffer of a socket, so that a message can be sent as a whole
	maxFDs          = 3
)

// send writes a message with open descriptors to a socket of type SOCK_SEQPACKET.
func send(socket int, m any, fds ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessageBytes {
		return fmt.Errorf("a message of %d bytes is too long", len(b))
	}

	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}

	for {
		if err = unix.Sendmsg(socket, b, rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads a message into m, and returns its descriptors. The error is io.EOF if the other process
// has ended.
func receive(socket int, m any) (fds []int, err error) {
	buffer := buffers.Get().(*[maxMessageBytes]byte)
	defer buffers.Put(buffer)

	b, rights := buffer[:], make([]byte, unix.CmsgSpace(4*maxFDs))
	var n, nr, flags int
	for {
		n, nr, flags, _, err = unix.Recvmsg(socket, b, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}

	switch {
	case err == nil && n == 0, errors.Is(err, unix.ECONNRESET):
		return nil, io.EOF
	case err != nil:
		return nil, err
	}

	if nr > 0 {
		msgs, err := unix.ParseSocketControlMessage(rights[:nr])
		if err != nil {
			return nil, err
		}

		for _, msg := range msgs {
			received, err := unix.ParseUnixRights(&msg)
			if err != nil {
				return nil, err
			}
			fds = append(fds, received...)
		}
	}
	if flags&unix.MSG_CTRUNC != 0 { // a descriptor did not fit into this process
		return fds, unix.EMFILE
	}

	return fds, json.Unmarshal(b[:n], m)
}

// buffers has spare buffers for received messages.
var buffers = sync.Pool{New: func() any { return new([maxMessageBytes]byte) }}
