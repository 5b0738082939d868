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
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"

	"golang.org/x/sys/unix"
)

// callPath is the control file for requests. Each caller creates a file of its own, with a suffix: callPath.XYZ.
const callPath = naming.SnapshotsDir + "/call"

// hasCallFile reports whether a workspace with control files is mounted at root.
func hasCallFile(root string) bool {
	_, err := os.Lstat(filepath.Join(root, callPath))
	return err == nil
}

// doThroughMount sends one request through the mount, and decodes the answer into result.
func (c *Client) doThroughMount(ctx context.Context, o *service.Op, args any, x Streams, result any) error {
	request, err := encodeRequest(o, args)
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
			return x.readStreamFile(file+".stream", o)
		}

		return nil
	})
}

// readStreamFile passes the contents of a file to x, as the stream of the operation o.
func (x Streams) readStreamFile(file string, o *service.Op) error {
	f, err := os.Open(file)
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

// encodeRequest returns a request for `.snapshots/call`.
func encodeRequest(o *service.Op, args any) ([]byte, error) {
	object, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}

	fields := strings.TrimPrefix(string(object), "{")
	if fields != "}" {
		fields = "," + fields
	}

	return []byte(`{"op":` + strconv.Quote(o.Name) + fields), nil
}

// call writes a request to a control file of its own, and calls the function read with the answer. If the daemon
// dies, reads and writes of the open file fail with ESTALE. Then call repeats the request if no daemon carried it
// out, or if the operation o only reads.
func (c *Client) call(o *service.Op, request []byte, read func(file string, answer []byte) error) error {
	for attempt := 1; ; attempt++ {
		answered, err := c.callOnce(request, read)
		if answered || err == nil {
			return err
		}

		answerLost := !errors.Is(err, errNotCarriedOut)
		if attempt == maxAttempts || !errors.Is(err, unix.ESTALE) || answerLost && o.Effect != service.Reads {
			e := errs.Fail(errs.ScriptKind(err), "asking through the mount: %w", err)
			if answerLost {
				e = e.WithHint("the daemon may have carried the request out: look at amberfs list and amberfs log before you repeat it")
			}

			return e
		}
	}
}

// errNotCarriedOut is wrapped in the error for a request that no daemon has carried out.
var errNotCarriedOut = errors.New("the request was not carried out")

// callOnce writes a request, and calls the function read if there is an answer. If answered is true, err is the error
// of read. If the write fails, there may be an answer with the reason.
func (c *Client) callOnce(request []byte, read func(file string, answer []byte) error) (answered bool, err error) {
	name := filepath.Join(c.target.Root, callPath+"."+rand.Text())
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, errors.Join(errNotCarriedOut, err)
	}
	defer os.Remove(name)
	defer f.Close()

	if _, err = f.Write(request); errors.Is(err, unix.ESTALE) {
		return false, errors.Join(errNotCarriedOut, err)
	}

	// The answer follows the request in the file, so the offset of f is now at the beginning of the answer.
	answer, failed := io.ReadAll(f)
	if len(bytes.TrimSpace(answer)) > 0 {
		return true, read(name, answer)
	}
	if err = errors.Join(err, failed); err == nil {
		err = io.ErrUnexpectedEOF
	}

	return false, err
}

// followInterval is the time between two requests of followMount.
const followInterval = 200 * time.Millisecond

// followMount follows events. It sends a request every followInterval, because requests through the mount cannot wait
// for events.
func (c *Client) followMount(ctx context.Context, l service.Log, x Streams) error {
	l.Follow = false
	next := Streams{Item: seqTracker(&l.After, x.Item)}

	for ctx.Err() == nil {
		if err := c.doThroughMount(ctx, service.OpOf(l), l, next, nil); err != nil {
			return err
		}

		select {
		case <-ctx.Done():
		case <-time.After(followInterval):
		}
	}

	return ctx.Err()
}
