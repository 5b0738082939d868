package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
)

// Client is one connection to a daemon, for one request.
type Client struct {
	conn  *net.UnixConn
	store string
	peer  Peer
}

// Exchange is a request with what to do with the answer's parts; the functions
// may be nil.
type Exchange struct {
	Request    Request
	Input      io.Reader
	OnProgress func(Progress)
	OnItem     func(json.RawMessage) error
	Output     io.Writer
}

// Dial connects to the daemon of the store dir. When none answers the error
// says so and wraps os.ErrNotExist or ECONNREFUSED.
func Dial(dir string) (*Client, error) {
	path, release, err := socketPath(dir)
	if err != nil {
		return nil, fail.New(fail.KindOf(err), "cannot reach the store %s: %w", dir, err)
	}
	defer release()
	d := net.Dialer{Timeout: 10 * time.Second}
	c, err := d.Dial("unix", path)
	if err != nil {
		switch {
		case errors.Is(err, os.ErrPermission):
			return nil, fail.New(fail.Failed, "only the user who mounted the store %s, or root, may control it", dir)
		case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
			e := fail.New(fail.NotFound, "no daemon answers for the store %s", dir).
				WithHint("mount it with `amberfs mount %s MOUNTPOINT`", dir)
			e.Err = err
			return nil, e
		}
		return nil, fail.New(fail.Failed, "cannot reach the daemon of the store %s: %w", dir, err)
	}
	conn := c.(*net.UnixConn)
	peer, err := peerOf(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{conn: conn, store: dir, peer: peer}, nil
}

// DaemonPID is the process that listens, as this process's PID namespace
// numbers it; 0 when it has no number there.
func (c *Client) DaemonPID() int { return c.peer.PID }

// Close hangs up; a request under way is cancelled.
func (c *Client) Close() error { return c.conn.Close() }

// Do sends the request and reads the answer; result may be nil. An error that
// the daemon sent is a *fail.Error, with what it had to show in result. When ctx
// ends, the request is cancelled and ctx's error returned.
func (c *Client) Do(ctx context.Context, x Exchange, result any) error {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	err := c.exchange(x, result)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *Client) exchange(x Exchange, result any) error {
	if err := writeLine(c.conn, x.Request); err != nil {
		return c.broken(err)
	}
	if x.Input != nil {
		go c.sendInput(x.Input)
	}
	r := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		var m Response
		if err := readLine(r, &m, maxResponse); err != nil {
			return c.broken(err)
		}
		switch {
		case m.Progress != nil:
			if x.OnProgress != nil {
				x.OnProgress(*m.Progress)
			}
		case m.Item != nil:
			if x.OnItem != nil {
				if err := x.OnItem(m.Item); err != nil {
					return err
				}
			}
		case m.Data != nil:
			if *m.Data < 0 || *m.Data > maxData {
				return errors.New("the daemon announces too much data")
			}
			w := x.Output
			if w == nil {
				w = io.Discard
			}
			if _, err := io.CopyN(w, r, int64(*m.Data)); err != nil {
				return err
			}
		case m.Error != nil:
			if result != nil && m.Error.Result != nil {
				if err := json.Unmarshal(m.Error.Result, result); err != nil {
					return fmt.Errorf("reading the daemon's answer: %w", err)
				}
			}
			return &fail.Error{Kind: m.Error.Kind, Msg: m.Error.Message, Hint: m.Error.Hint}
		case m.Result != nil:
			// Whatever became of the input: the daemon had what it needed.
			if result == nil {
				return nil
			}
			if err := json.Unmarshal(m.Result, result); err != nil {
				return fmt.Errorf("reading the daemon's answer: %w", err)
			}
			return nil
		}
	}
}

// sendInput frames what r gives. A read error hangs up, so that half an input
// is never taken for a whole one: the daemon answers with an error then.
func (c *Client) sendInput(r io.Reader) {
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if writeData(c.conn, buf[:n]) != nil {
				return // the daemon said why, or ended
			}
		}
		if errors.Is(err, io.EOF) {
			_ = writeLine(c.conn, dataLine{})
			return
		}
		if err != nil {
			_ = c.conn.CloseWrite()
			return
		}
	}
}

// broken explains a connection that ended in the middle.
func (c *Client) broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		e := fail.New(fail.Failed, "the daemon of the store %s ended before it answered", c.store).
			WithHint("its log is amberfs.log in the store")
		e.Err = err
		return e
	}
	return fmt.Errorf("talking to the daemon: %w", err)
}

// WaitClosed waits until the daemon hangs up, which it does at the latest when
// it ends.
func (c *Client) WaitClosed(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	defer stop()
	_, err := io.Copy(io.Discard, c.conn)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, unix.ECONNRESET) {
		return nil
	}
	return err
}
