package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
)

// maxAttempts is the largest number of daemons to which a request is sent. It is sent to a further daemon only after
// the previous one has ended.
const maxAttempts = 10

// smallRequestBytes is a size of arguments. A daemon reads a request with fewer bytes of arguments, and its HTTP
// head, by one read(2). So a daemon that ends has read either the whole of such a request or no byte of it.
const smallRequestBytes = 2 << 10

// doWithRetries sends a request, and sends it again to the next daemon if a daemon ended before it answered. It
// repeats a request only if that is harmless: either the daemon has not read the request, or the operation
// only reads and no part of its answer was passed to x.
func (c *Client) doWithRetries(ctx context.Context, o *service.Op, args any, x Streams, result any) (err error) {
	for range maxAttempts {
		passed := false
		err = c.doHTTP(ctx, o, args, x.markPassed(&passed), result)
		harmless := isUnread(err) && requestSize(args) < smallRequestBytes || o.Effect == service.Reads && !passed
		if !errors.Is(err, errBroken) || o.Input != "" || !harmless {
			return err
		}
	}
	return err
}

// isUnread reports whether err means that the daemon ended, or closed the connection, before it read the request. The
// kernel returns ECONNRESET if unread bytes were left in the connection, and EPIPE if the connection was closed
// before the request was written. If net/http finds the connection closed, the error is errIdle, see explainBroken.
func isUnread(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, errIdle)
}

func requestSize(args any) int {
	b, err := json.Marshal(args)
	if err != nil {
		return smallRequestBytes
	}
	return len(b)
}

// markPassed returns Streams that pass the answer to x, and set passed when they pass a part of it.
func (x Streams) markPassed(passed *bool) Streams {
	if item := x.Item; item != nil {
		x.Item = func(raw json.RawMessage) error { *passed = true; return item(raw) }
	}
	if out := x.Out; out != nil {
		x.Out = markingWriter{out, passed}
	}

	return x
}

// A markingWriter sets passed at each write.
type markingWriter struct {
	io.Writer
	passed *bool
}

func (w markingWriter) Write(p []byte) (int, error) {
	*w.passed = true
	return w.Writer.Write(p)
}

// follow passes events to x as they happen. If l.Limit is set, and l.New is not, it first passes the newest l.Limit
// events. If the daemon ends, it continues with the next daemon.
func (c *Client) follow(ctx context.Context, l service.Log, x Streams) error {
	if l.New || l.Limit > 0 {
		past, item := l, x.Item // first the past events, and then, after the newest one, further events
		past.Follow, past.New = false, false
		if l.New {
			past, item = service.Log{Limit: 1}, func(json.RawMessage) error { return nil }
		}

		l.New, l.Limit = false, 0
		if err := c.Do(ctx, past, Streams{Item: seqTracker(&l.After, item)}, nil); err != nil {
			return err
		}
	}
	if c.http == nil {
		return c.followMount(ctx, l, x)
	}

	o := service.OpOf(l)

	for {
		err := c.doHTTP(ctx, o, l, Streams{Item: seqTracker(&l.After, x.Item)}, nil)
		if !errors.Is(err, errBroken) || ctx.Err() != nil {
			return err
		}
	}
}

// seqTracker returns a function for Streams.Item. This function stores the number of each event in *last, and then
// calls the function item.
func seqTracker(last *uint64, item func(json.RawMessage) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var e events.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}

		*last = max(*last, e.Seq)
		return item(raw)
	}
}
