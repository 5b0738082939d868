package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/service/internal/descriptors"
)

// A door is the listening socket of a server, which can be shut for a while. Clients that connect
// while it is shut wait until it opens, or until the next daemon accepts them on the same socket.
type door struct {
	*net.UnixListener
	mu         sync.Mutex
	openSignal chan struct{} // nil while the door is open; otherwise, open closes the channel to wake Accept
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.UnixListener.Accept()
		if err == nil {
			return &descriptors.Receiver{UnixConn: c.(*net.UnixConn)}, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, err
		}

		d.mu.Lock()
		shut := d.openSignal
		d.mu.Unlock()
		if shut != nil {
			<-shut
		}
	}
}

// Close implements net.Listener.
func (d *door) Close() error {
	d.open()
	return d.UnixListener.Close()
}

// stopAccepting stops Accept until open is called.
func (d *door) stopAccepting() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.openSignal = make(chan struct{})
	_ = d.SetDeadline(time.Unix(1, 0))
}

// open lets Accept continue after stopAccepting.
func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.openSignal != nil {
		_ = d.SetDeadline(time.Time{})
		close(d.openSignal)
		d.openSignal = nil
	}
}

// A callSet has the unanswered requests to a server. They would fail if the daemon ended now.
type callSet struct {
	mu         sync.Mutex
	active     map[*pendingCall]bool
	freshConns map[net.Conn]bool // connections on which the client has not sent a request yet
	removal    chan struct{}     // closed and replaced when an element is removed
}

// A pendingCall is a request in a callSet.
type pendingCall struct {
	set  *callSet
	path string
}

// callKey is the key of a request's pendingCall in its context.
type callKey struct{}

// add adds a request to the set, until its pendingCall is removed.
func (c *callSet) add(r *http.Request) (*pendingCall, *http.Request) {
	one := &pendingCall{c, r.URL.Path}
	c.mu.Lock()
	c.active[one] = true
	c.mu.Unlock()
	return one, r.WithContext(context.WithValue(r.Context(), callKey{}, one))
}

// remove removes the request from its set. It may be called twice.
func (c *pendingCall) remove() {
	c.set.mu.Lock()
	defer c.set.mu.Unlock()
	delete(c.set.active, c)
	c.set.wakeWaiters()
}

// exemptCall removes a request from its callSet before it is answered. The server calls it for requests whose
// client can handle the end of the daemon.
func exemptCall(r *http.Request) {
	if one, ok := r.Context().Value(callKey{}).(*pendingCall); ok {
		one.remove()
	}
}

// wakeWaiters wakes the callers of pending after a removal from the set: it closes the channel that they wait for.
// The caller holds c.mu.
func (c *callSet) wakeWaiters() {
	close(c.removal)
	c.removal = make(chan struct{})
}

// connState records connections on which the client has not sent a request yet.
func (c *callSet) connState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew {
		c.freshConns[conn] = true
	} else if c.freshConns[conn] {
		delete(c.freshConns, conn)
		c.wakeWaiters()
	}
}

// pending returns the paths of the unanswered requests in the set, and whether there are connections on which the
// client has not sent a request yet (fresh). The channel changed is closed at the next removal of a request or
// connection.
func (c *callSet) pending() (paths []string, fresh bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()

	for one := range c.active {
		paths = append(paths, strings.TrimPrefix(one.path, "/v1/"))
	}

	slices.Sort(paths)

	return paths, len(c.freshConns) > 0, c.removal
}

// freshConnWait is how long Drain waits for the request of a client that has just connected.
const freshConnWait = time.Second

// Drain stops accepting clients, and returns nil when all requests in the callSet are answered. If ctx ends before
// that, Drain accepts clients again and returns the names of the operations that still run.
func (srv *Server) Drain(ctx context.Context) (running []string) {
	srv.door.stopAccepting()
	srv.http.SetKeepAlivesEnabled(false) // a client with an unused connection must connect again
	freshDeadline := time.After(freshConnWait)

	for waitFresh := true; ; {
		running, fresh, changed := srv.calls.pending()
		if len(running) == 0 && (!fresh || !waitFresh) {
			return nil
		}

		select {
		case <-changed:
		case <-freshDeadline:
			waitFresh = false
		case <-ctx.Done():
			srv.Undrain()
			return running
		}
	}
}

// Undrain accepts clients again after Drain.
func (srv *Server) Undrain() {
	srv.http.SetKeepAlivesEnabled(true)
	srv.door.open()
}
