package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// callName is the control file for requests; callName.ANYTHING is private to the caller.
const callName = naming.SnapshotsDir + "/call"

func answers(root string) bool {
	_, err := os.Lstat(filepath.Join(root, callName))
	return err == nil
}

func (c *Client) throughMount(ctx context.Context, o *service.Op, args any, x Exchange, result any) error {
	if l, ok := args.(service.Log); ok && l.Follow {
		return c.followMount(ctx, l, x)
	}
	request, err := requestLine(o, args)
	if err != nil {
		return err
	}
	return c.call(request, func(file string, raw []byte) error {
		var a struct {
			OK bool
			fail.Error
			Text   string
			Items  []json.RawMessage
			Stream bool
		}
		a.Result = result
		if err := json.Unmarshal(raw, &a); err != nil {
			return fail.New(fail.Failed, "reading the mount's answer: %w", err)
		}
		if a.Result = nil; !a.OK {
			return &a.Error
		}
		for _, item := range a.Items {
			if err := x.Item(item); err != nil {
				return err
			}
		}
		if a.Text != "" {
			if _, err := io.WriteString(x.Out, a.Text); err != nil {
				return err
			}
		}
		if a.Stream {
			return x.takeFile(file+".stream", o)
		}
		return nil
	})
}

// takeFile passes on a stream that is not a part of the answer.
func (x Exchange) takeFile(name string, o *service.Op) error {
	f, err := os.Open(name)
	if err != nil {
		return fail.New(fail.KindOf(err), "reading the mount's answer: %w", err)
	}
	defer f.Close()
	if o.Output != service.Events {
		_, err = io.Copy(x.Out, f)
		return err
	}
	for d := json.NewDecoder(f); ; {
		var item json.RawMessage
		if err := d.Decode(&item); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fail.New(fail.Failed, "reading the mount's answer: %w", err)
		}
		if err := x.Item(item); err != nil {
			return err
		}
	}
}

func requestLine(o *service.Op, args any) ([]byte, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, err
	}
	fields["op"] = json.RawMessage(strconv.Quote(o.Name))
	return json.Marshal(fields)
}

// call writes a request to a control file of its own and has the answer read. A write
// that fails is answered too: the file has the reason.
func (c *Client) call(request []byte, read func(file string, answer []byte) error) error {
	name := filepath.Join(c.target.Root, callName+"."+rand.Text())
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fail.New(fail.KindOf(err), "asking through the mount: %w", err)
	}
	defer os.Remove(name)
	_, failed := f.Write(request)
	if err := f.Close(); err != nil && failed == nil {
		failed = err
	}
	answer, err := os.ReadFile(name)
	if len(bytes.TrimSpace(answer)) > 0 {
		return read(name, answer)
	}
	if err = errors.Join(failed, err); err == nil {
		err = io.ErrUnexpectedEOF
	}
	return fail.New(fail.KindOf(err), "asking through the mount: %w", err)
}

const followTime = 200 * time.Millisecond

func (c *Client) followMount(ctx context.Context, l service.Log, x Exchange) error {
	l.Follow = false
	if l.New {
		l.New = false
		newest := Exchange{Item: func(raw json.RawMessage) error {
			var e events.Event
			err := json.Unmarshal(raw, &e)
			l.After = max(l.After, e.Seq)
			return err
		}}
		last := service.Log{Limit: 1}
		if err := c.throughMount(ctx, service.OpOf(last), last, newest, nil); err != nil {
			return err
		}
	}
	next := Exchange{Item: func(raw json.RawMessage) error {
		var e events.Event
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		l.After = e.Seq
		return x.Item(raw)
	}}
	for ctx.Err() == nil {
		if err := c.throughMount(ctx, service.OpOf(l), l, next, nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(followTime):
		}
	}
	return ctx.Err()
}
