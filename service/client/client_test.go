package client

import (
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBroken: in whatever way the end of the daemon is noticed, the error has the same text. net.ErrClosed is the
// error of a client that still sends the body when its reader closes the connection.
func TestBroken(t *testing.T) {
	c := &Client{target: Target{Store: "/store"}}
	for _, of := range []error{
		io.EOF,
		io.ErrUnexpectedEOF,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", unix.ECONNRESET)},
		&net.OpError{Op: "write", Err: os.NewSyscallError("write", unix.EPIPE)},
		&net.OpError{Op: "write", Err: net.ErrClosed},
	} {
		err := c.explainBroken(&url.Error{Op: "Post", Err: of})
		if !errors.Is(err, errBroken) || !strings.Contains(err.Error(), "/store ended before it answered") {
			t.Errorf("%v is %v", of, err)
		}
	}
	if err := c.explainBroken(io.ErrShortWrite); !errors.Is(err, io.ErrShortWrite) || errors.Is(err, errBroken) {
		t.Errorf("another error is %v", err)
	}
}

// TestNotRead: isUnread returns true only for errors after which the daemon cannot have read the request.
func TestNotRead(t *testing.T) {
	c := &Client{target: Target{Store: "/store"}}
	for of, want := range map[error]bool{
		errors.New("http: server closed idle connection"):                          true,
		&net.OpError{Op: "read", Err: os.NewSyscallError("read", unix.ECONNRESET)}: true,
		&net.OpError{Op: "write", Err: os.NewSyscallError("write", unix.EPIPE)}:    true,
		io.EOF:              false,
		io.ErrUnexpectedEOF: false,
	} {
		if err := c.explainBroken(of); !errors.Is(err, errBroken) || isUnread(err) != want {
			t.Errorf("%v: not read is %v", of, !want)
		}
	}
}
