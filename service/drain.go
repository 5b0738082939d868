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
)

// A door is the socket of a server. While it is shut, who connects waits: for its opening, or for the
// next daemon, which has the same socket.
type door struct {
	*net.UnixListener
	mu   sync.Mutex
	shut chan struct{} // closed when the door opens; nil while it is open
}

// Accept implements net.Listener.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.UnixListener.Accept()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return c, err
		}
		d.mu.Lock()
		shut := d.shut
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

func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut = make(chan struct{})
	_ = d.SetDeadline(time.Unix(1, 0))
}

func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut != nil {
		_ = d.SetDeadline(time.Time{})
		close(d.shut)
		d.shut = nil
	}
}

// calls are the requests of a server that the end of the daemon would break.
type calls struct {
	mu     sync.Mutex
	active map[*pendingCall]bool
	fresh  map[net.Conn]bool // connections that have not sent a request yet
	ended  chan struct{}     // closed at a change
}

type pendingCall struct {
	of   *calls
	path string
}

// callKey finds the call in the context of a request.
type callKey struct{}

func newCalls() *calls {
	return &calls{active: make(map[*pendingCall]bool), fresh: make(map[net.Conn]bool), ended: make(chan struct{})}
}

// begin counts a request until leave is called.
func (c *calls) begin(r *http.Request) (*pendingCall, *http.Request) {
	one := &pendingCall{c, r.URL.Path}
	c.mu.Lock()
	c.active[one] = true
	c.mu.Unlock()
	return one, r.WithContext(context.WithValue(r.Context(), callKey{}, one))
}

// leave ends the count of a request: it has its answer, or asks again when the daemon ends.
func (c *pendingCall) leave() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	delete(c.of.active, c)
	c.of.changed()
}

// leave is pendingCall.leave for a handler.
func leave(r *http.Request) {
	if one, ok := r.Context().Value(callKey{}).(*pendingCall); ok {
		one.leave()
	}
}

// changed wakes who waits. The lock is held.
func (c *calls) changed() {
	close(c.ended)
	c.ended = make(chan struct{})
}

// connState takes note of connections on which the client may be about to send a request.
func (c *calls) connState(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateNew {
		c.fresh[conn] = true
	} else if c.fresh[conn] {
		delete(c.fresh, conn)
		c.changed()
	}
}

// running returns the requests that are not answered yet, and whether others may be about to come.
func (c *calls) running() (paths []string, fresh bool, ended <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for one := range c.active {
		paths = append(paths, strings.TrimPrefix(one.path, "/v1/"))
	}
	slices.Sort(paths)
	return paths, len(c.fresh) > 0, c.ended
}

// freshTime is how long a client that has connected may take to ask.
const freshTime = time.Second

// Drain lets nobody in, and returns when all requests are answered that the end of the daemon would
// break. If they are not before ctx is done, it returns what still runs, and opens the door again.
func (srv *Server) Drain(ctx context.Context) (running []string) {
	srv.door.close()
	srv.http.SetKeepAlivesEnabled(false) // who has a connection and does not use it connects anew
	late := time.After(freshTime)
	for waits := true; ; {
		running, fresh, ended := srv.calls.running()
		if len(running) == 0 && (!fresh || !waits) {
			return nil
		}
		select {
		case <-ended:
		case <-late:
			waits = false
		case <-ctx.Done():
			srv.Undrain()
			return running
		}
	}
}

// Undrain lets clients in again after Drain.
func (srv *Server) Undrain() {
	srv.http.SetKeepAlivesEnabled(true)
	srv.door.open()
}
