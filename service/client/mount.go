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

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/naming"

	"golang.org/x/sys/unix"
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
	return c.call(o, request, func(file string, raw []byte) error {
		var a struct {
			OK bool
			errs.Error
			Text   string
			Items  []json.RawMessage
			Stream bool
		}
		a.Result = result
		if err := json.Unmarshal(raw, &a); err != nil {
			return errs.Fail(errs.Failed, "reading the mount's answer: %w", err)
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
		return errs.Fail(errs.ScriptKind(err), "reading the mount's answer: %w", err)
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
			return errs.Fail(errs.Failed, "reading the mount's answer: %w", err)
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

// call writes a request to a control file of its own and has the answer read. If the daemon dies,
// the file is outdated: then the request was not carried out, or its answer is lost. The first is
// asked again, and the second if the operation only reads.
func (c *Client) call(o *service.Op, request []byte, read func(file string, answer []byte) error) error {
	for asked := 1; ; asked++ {
		answered, err := c.callOnce(request, read)
		if answered || err == nil {
			return err
		}
		lost := !errors.Is(err, errNotAsked)
		if asked == maxAsked || !errors.Is(err, unix.ESTALE) || lost && o.Effect != service.Reads {
			e := errs.Fail(errs.ScriptKind(err), "asking through the mount: %w", err)
			if lost {
				e = e.WithHint("the daemon may have carried the request out: look at amberfs list and amberfs log before you repeat it")
			}
			return e
		}
	}
}

// errNotAsked is in the error for a request that no daemon has carried out.
var errNotAsked = errors.New("the request was not carried out")

// callOnce reports whether the answer was there. A write that fails is answered too: the file has
// the reason.
func (c *Client) callOnce(request []byte, read func(file string, answer []byte) error) (answered bool, err error) {
	name := filepath.Join(c.target.Root, callName+"."+rand.Text())
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, errors.Join(errNotAsked, err)
	}
	defer os.Remove(name)
	defer f.Close()

	if _, err = f.Write(request); errors.Is(err, unix.ESTALE) {
		return false, errors.Join(errNotAsked, err)
	}
	// The answer follows the request in the file.
	answer, failed := io.ReadAll(f)
	if len(bytes.TrimSpace(answer)) > 0 {
		return true, read(name, answer)
	}
	if err = errors.Join(err, failed); err == nil {
		err = io.ErrUnexpectedEOF
	}
	return false, err
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
