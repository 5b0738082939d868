package service

import (
	"net"
	"sync"
	"time"
)

// connections are those of a server. When it ends nothing more is read from them, and
// a client that does not take its answer holds nobody up.
type connections struct {
	*net.UnixListener

	mu struct {
		sync.Mutex
		open   map[*connection]struct{}
		ending bool
	}
}

func newConnections(l *net.UnixListener) *connections {
	c := &connections{UnixListener: l}
	c.mu.open = make(map[*connection]struct{})
	return c
}

// A connection is one of them.
type connection struct {
	*net.UnixConn
	of *connections
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	u, err := l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	c := &connection{u, l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.open[c] = struct{}{}
	if l.mu.ending {
		c.hurry()
	}
	return c, nil
}

// end has all that is being read end now, and what is being written within the grace.
func (l *connections) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.ending = true
	for c := range l.mu.open {
		c.hurry()
	}
}

func (l *connections) ending() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.ending
}

func (c *connection) hurry() {
	_ = c.UnixConn.SetReadDeadline(time.Unix(1, 0))
	_ = c.UnixConn.SetWriteDeadline(time.Now().Add(grace))
}

// Write implements net.Conn: also an answer that is ready late has the grace.
func (c *connection) Write(p []byte) (int, error) {
	if c.of.ending() {
		_ = c.UnixConn.SetWriteDeadline(time.Now().Add(grace))
	}
	return c.UnixConn.Write(p)
}

// SetReadDeadline implements net.Conn, for as long as there is something to be read.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.mu.ending {
		t = time.Unix(1, 0)
	}
	return c.UnixConn.SetReadDeadline(t)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.mu.open, c)
	c.of.mu.Unlock()
	return c.UnixConn.Close()
}
