package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
)

// maxAsked is how many daemons a request is made to, each after the death of the one before.
const maxAsked = 10

// smallRequest is a request that a daemon reads at once, in bytes, with its head.
const smallRequest = 2 << 10

// askAgain asks, and asks the next daemon if one ended before it answered, as long as that does no harm:
// the request was not read, or it only reads and has passed nothing on.
func (c *Client) askAgain(ctx context.Context, o *service.Op, args any, x Exchange, result any) (err error) {
	for range maxAsked {
		passed := false
		err = c.overHTTP(ctx, o, args, x.noting(&passed), result)
		harmless := notRead(err) && requestSize(args) < smallRequest || o.Effect == service.Reads && !passed
		if !errors.Is(err, errBroken) || o.Input != "" || !harmless {
			return err
		}
	}
	return err
}

// notRead reports whether the daemon ended, or closed a connection, before it read the request: the
// kernel says so if something was left in the connection, or if it was closed before.
func notRead(err error) bool {
	return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || err != nil && closedIdle(err)
}

// closedIdle reports whether the daemon closed a connection between two requests. net/http exports no
// such error.
func closedIdle(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "server closed idle connection") {
			return true
		}
		if many, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range many.Unwrap() {
				if closedIdle(e) {
					return true
				}
			}
		}
	}
	return false
}

func requestSize(args any) int {
	b, err := json.Marshal(args)
	if err != nil {
		return smallRequest
	}
	return len(b)
}

// noting is x, and sets passed when something of the answer is passed on.
func (x Exchange) noting(passed *bool) Exchange {
	if item := x.Item; item != nil {
		x.Item = func(raw json.RawMessage) error { *passed = true; return item(raw) }
	}
	if out := x.Out; out != nil {
		x.Out = noted{out, passed}
	}
	return x
}

type noted struct {
	io.Writer
	passed *bool
}

func (n noted) Write(p []byte) (int, error) {
	*n.passed = true
	return n.Writer.Write(p)
}

// follow shows events as they happen, also when daemons are replaced meanwhile.
func (c *Client) follow(ctx context.Context, l service.Log, x Exchange) error {
	o := service.OpOf(l)
	if l.New { // by its number, which the next daemon knows as well
		l.New = false
		newest := service.Log{Limit: 1}
		err := c.askAgain(ctx, service.OpOf(newest), newest, Exchange{Item: x.after(&l.After, func(json.RawMessage) error { return nil })}, nil)
		if err != nil {
			return err
		}
	}
	for {
		err := c.overHTTP(ctx, o, l, Exchange{Item: x.after(&l.After, x.Item)}, nil)
		if !errors.Is(err, errBroken) || ctx.Err() != nil {
			return err
		}
	}
}

// after returns an Item that notes the number of the last event.
func (x Exchange) after(last *uint64, item func(json.RawMessage) error) func(json.RawMessage) error {
	return func(raw json.RawMessage) error {
		var e events.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		*last = max(*last, e.Seq)
		return item(raw)
	}
}
