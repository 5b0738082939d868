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

// A Connection is a mount that outlives its daemon.
type Connection struct {
	Store      string `json:"store"`
	Mountpoint string `json:"mountpoint"`
	// Init is the kernel's first request, and Answer what it was answered.
	Init   []byte `json:"init"`
	Answer []byte `json:"answer"`
	// Made are directories that the daemon removes at the end, and Nudge is
	// fusefs.Options.Nudge.
	Made  []string `json:"made,omitempty"`
	Nudge int64    `json:"nudge"`
}

// A State of a User.
type State string

const (
	Joining   State = "joining"   // it has no answer yet
	Joined    State = "joined"    // it uses the mount
	Upgrading State = "upgrading" // it waits for the end of an upgrade
)

// A User is a connection of a client that a daemon hands to its successor.
type User struct {
	ID    int    `json:"id"`
	Fork  string `json:"fork,omitempty"`
	State State  `json:"state"`
}

// A Start is what a daemon gets when it starts: with a Connection come the device, the
// lock and the socket, and after it a message for each user, with its connection.
type Start struct {
	Background bool        `json:"background"` // it has no terminal
	Connection *Connection `json:"connection,omitempty"`
	Users      []User      `json:"users,omitempty"` // sent one by one: any number of them may use a mount
	UserCount  int         `json:"user_count,omitempty"`
	// Poison are requests that are answered with an error: daemons died of them. Suspects are
	// requests that may be: they are carried out one at a time.
	Poison   []uint64 `json:"poison,omitempty"`
	Suspects []uint64 `json:"suspects,omitempty"`
	// Frozen is when the present freeze is to end, and Thawed when a death ended one before its time.
	Frozen time.Time `json:"frozen,omitzero"`
	Thawed time.Time `json:"thawed,omitzero"`
	// Frugal is set after daemons were killed before they were ready, see snapshot.Options.
	Frugal bool `json:"frugal,omitempty"`
	// Restarts counts the daemons before this one. Reason says how the last of them ended, and
	// when. Pause is how long the last pause was, in the daemon that ended it and in
	// those after an upgrade.
	Restarts int       `json:"restarts"`
	Reason   string    `json:"reason,omitempty"`
	Died     time.Time `json:"died,omitzero"`
	// Upgraded is set after an upgrade, and Refused to the reason if the new program did not
	// become ready.
	Upgraded bool   `json:"upgraded,omitempty"`
	Refused  string `json:"refused,omitempty"`
}

// A Message is sent by a daemon to its keeper. One field is set.
type Message struct {
	Connection *Connection `json:"connection,omitempty"` // with the device, the lock and the socket
	Ready      bool        `json:"ready,omitempty"`      // the mount answers
	Ending     bool        `json:"ending,omitempty"`     // the end of this daemon is the end of the mount
	Notify     string      `json:"notify,omitempty"`     // the state for the service manager
	User       *User       `json:"user,omitempty"`       // with its connection, if it is new
	Left       int         `json:"left,omitempty"`       // the ID of a user
	Made       []string    `json:"made,omitempty"`       // see Connection
	// Began is a request that the kernel sent again, Answered one that was answered.
	Began    uint64 `json:"began,omitempty"`
	Answered uint64 `json:"answered,omitempty"`
	Upgrade  string `json:"upgrade,omitempty"` // the path of a program
	// Thread is one of the daemon that only waits for its keeper. Its end is the beginning of the
	// daemon's.
	Thread int        `json:"thread,omitempty"`
	Failed *Failure   `json:"failed,omitempty"` // why this daemon does not become ready
	Frozen *time.Time `json:"frozen,omitempty"` // the end of a freeze; the zero time after a thaw
}

// A Failure is why a daemon could not take over.
type Failure struct {
	Reason string `json:"reason"`
	// Shortage: something was missing that others may give back, such as space on the disk.
	Shortage bool `json:"shortage,omitempty"`
}

// Version is of what keepers and daemons send each other, and of what a keeper leaves to the
// program that it becomes.
const Version = 4

const (
	maxMessage = 160 << 10 // less than a socket's buffer
	maxFiles   = 3
)

// send writes a message with open files to a socket of type SOCK_SEQPACKET.
func send(socket int, m any, files ...int) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(b))
	}

	var rights []byte
	if len(files) > 0 {
		rights = unix.UnixRights(files...)
	}

	for {
		if err = unix.Sendmsg(socket, b, rights, nil, unix.MSG_NOSIGNAL); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive reads a message into m; io.EOF if the other side is gone.
func receive(socket int, m any) (files []int, err error) {
	buffer := buffers.Get().(*[maxMessage]byte)
	defer buffers.Put(buffer)

	b, rights := buffer[:], make([]byte, unix.CmsgSpace(4*maxFiles))
	var n, nr, flags int
	for {
		n, nr, flags, _, err = unix.Recvmsg(socket, b, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}

	if err == nil && n == 0 || errors.Is(err, unix.ECONNRESET) {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}

	if nr > 0 {
		msgs, err := unix.ParseSocketControlMessage(rights[:nr])
		if err != nil {
			return nil, err
		}

		for _, msg := range msgs {
			fds, err := unix.ParseUnixRights(&msg)
			if err != nil {
				return nil, err
			}
			files = append(files, fds...)
		}
	}
	if flags&unix.MSG_CTRUNC != 0 { // a descriptor did not fit into this process
		return files, unix.EMFILE
	}

	return files, json.Unmarshal(b[:n], m)
}

// buffers are for received messages.
var buffers = sync.Pool{New: func() any { return new([maxMessage]byte) }}
