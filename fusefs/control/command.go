package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The way of a command:
//
//  1. Write and renamePrivate pass the text of a command to submit, which parses it.
//  2. submit, Mkdir, Rmdir and Rename call perform, or runCall for a request in JSON.
//  3. These wait for their turn, call the service and store the answer.

// Write runs a command, whose error becomes the error of write(2). Neither OPEN nor FLUSH reach the
// daemon, so each write is taken for a whole command unless its text shows that more follows. The
// command does not depend on the offset. Afterwards the file has blanks up to the end of the write, and
// the answer after them, so that a program that continues with read(2) gets the whole answer.
func (t *Tree) Write(id live.NodeID, data []byte, off int64, r Request) (int, error) {
	n, err := t.get(id)
	if err != nil && r.Carried != nil {
		n, err = t.recreate(id, data, r)
	}
	if err != nil {
		return 0, err
	}
	if n.kind == nodeScratch {
		return t.writeScratch(n, data, off)
	}
	if n.mode&0o200 == 0 {
		return 0, errs.Perm
	}

	t.mu.Lock()
	cached := n.cached
	n.cached = false
	t.mu.Unlock()
	if cached {
		t.Kernel.DropPages(n.id)
	}

	line := t.assemble(n, data, r.Caller)
	if line == nil {
		return len(data), nil
	}

	t.mu.Lock()
	n.commands++
	t.mu.Unlock()

	wrote := len(data)
	if err = t.submit(n.dir.ws, n.slot.name, n, line, r); err != nil {
		wrote = 0
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	n.commands--

	if n.blanks = off + int64(wrote); n.blanks > maxBlanks || n.kind == nodeRendered { // a read of a rendered file returns its content, not an answer
		n.blanks = 0
	}

	return wrote, err
}

// maxBlanks is the most blanks before an answer.
const maxBlanks = 64 << 20

// runWhenAllowed calls fn, which runs the operation of args. Operations that are not cheap wait for
// others of their tenant and then take turns with the operations of all tenants. Cheap operations wait while too
// many of their tenant run. If atOnce is set, operations whose row says AtOnce do not wait, and keep
// the goroutine that reads the kernel's requests.
func (t *Tree) runWhenAllowed(ws *snapshot.Workspace, r Request, args any, atOnce bool, fn func(context.Context) error) error {
	switch o := service.OpOf(args); {
	case o.CostOf(ws, args) != service.Cheap:
		return t.compute(ws, r, fn)
	case atOnce && o.Files.AtOnce && !service.Fetches(args):
		return fn(context.Background())
	}
	return t.runLimited(t.tenant(ws).commands, r, fn)
}

// submit runs a command that was written to the control file name, or to the node n of a call file.
func (t *Tree) submit(ws *snapshot.Workspace, name string, n *node, line []byte, r Request) error {
	release, err := t.reserveCommand(ws, int64(len(line)))
	if err != nil {
		return err
	}
	defer release()

	if name == callName || isCall(name) {
		return t.runCall(ws, name, n, line, r)
	}

	args, err := service.Written(name).FromLine(string(line))
	if err != nil && r.Carried != nil {
		return errUnanswered // the line is only the end of the command: the previous daemon had its beginning
	}

	return t.perform(ws, name, n, r, args, err)
}

// reserveCommand reserves room in the cache for a command that may have to wait.
func (t *Tree) reserveCommand(ws *snapshot.Workspace, size int64) (release func(), err error) {
	w := t.newContent(ws)
	if err := t.reserve(w.tenant, 0, size); err != nil {
		return nil, err
	}
	w.reserved = size
	return w.discard, nil
}

// perform runs the operation of args, and stores the answer as the content of the file name. n, if set,
// is the node that the command was written to, which shows the answer, too. If err is not nil, the
// command is wrong, and perform only stores the error as its answer.
func (t *Tree) perform(ws *snapshot.Workspace, name string, n *node, r Request, args any, err error) error {
	began := time.Now()
	var result any
	if err == nil {
		err = t.runWhenAllowed(ws, r, args, true, func(ctx context.Context) (err error) {
			result, err = t.Service.Do(ctx, r.forService(ws), args)
			return err
		})
	}
	if err == nil {
		if brief := service.OpOf(args).Files.Brief; brief != nil {
			result = brief(result)
		}
	}

	if err != nil {
		if e := (*errs.Error)(nil); !errors.As(err, &e) { // the service has logged its own errors
			t.log.Info("control command refused", "workspace", ws.Name(), "file", name, "err", err)
		}
	}

	if name == policyName { // that file shows the policy and no answers: an error is shown by create
		if err == nil {
			return nil
		}
		name, n = createName, nil
	}

	took := time.Since(began)
	return errors.Join(err, t.storeAnswer(ws, name, n, r.Caller, func(w io.Writer) error { return writeAnswer(w, result, err, took) }))
}

// storeAnswer stores the text that write writes as the answer of a file, see keepAnswer.
func (t *Tree) storeAnswer(ws *snapshot.Workspace, name string, n *node, who actors.Caller, write func(io.Writer) error) error {
	w := t.newContent(ws)
	if err := write(w); err != nil {
		w.discard()
		return err
	}

	t.keepAnswer(ws, name, n, who, w)
	return nil
}

// writeAnswer writes one line of JSON: the fields of the result, or the error.
func writeAnswer(w io.Writer, result any, err error, took time.Duration) error {
	if err != nil {
		return gitquote.Encoder(w).Encode(service.Failed(err))
	}
	var fields bytes.Buffer
	if err := gitquote.Encoder(&fields).Encode(result); err != nil {
		return err
	}

	inner := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(fields.Bytes()), []byte("{")), []byte("}"))
	if len(inner) > 0 {
		inner = append(inner, ',')
	}

	_, err = fmt.Fprintf(w, "{\"ok\":true,%s\"ms\":%g}\n", inner, float64(took.Microseconds())/1000)
	return err
}

// keepAnswer makes the text of w the content of a file: the file gets a new node for the caller, and
// one for the workspace's owner. The node n that the command was written to shows the answer, too, for
// a program that reads from the same descriptor. A private file without a name has n only.
func (t *Tree) keepAnswer(ws *snapshot.Workspace, name string, n *node, who actors.Caller, w *contentWriter) {
	own := t.slotOf(ws, name, who)
	t.mu.Lock()
	defer t.mu.Unlock()

	c := w.releaseLocked()
	d := t.dirLocked(ws)
	d.changed = now()
	f, _ := findFile(name)
	m := &node{kind: nodeAnswer, mode: f.kind | f.mode, content: c}

	switch {
	case n == nil || !n.private():
		if own.user != anybody {
			t.addLocked(d, slot{name, anybody}, &node{kind: nodeAnswer, mode: m.mode, content: c})
		}
		t.addLocked(d, own, m)

	case d.current[n.slot] == n:
		m.kind, m.mode, m.owner = n.kind, n.mode, n.owner
		t.addLocked(d, n.slot, m)
	default: // the private file was removed or renamed
		n.content = c
		t.resizeLocked(n)
		return
	}

	if n != nil {
		n.content, n.newer, n.mtime = c, nil, now()
		if c.Size() > maxBlock { // a large content is charged once only
			n.content, n.newer = nil, m
		}

		t.resizeLocked(n)
	}
}

// maxInline is the size in bytes of the longest stream that is a part of its answer.
const maxInline = 64 << 10

// runCall runs a request in JSON that was written to `call` or to the call file n, and stores the
// answer, also if the request fails. The stream of an operation, such as a diff, is a part of the
// answer if it is short and text. Otherwise it gets a file of its own.
func (t *Tree) runCall(ws *snapshot.Workspace, name string, n *node, request []byte, r Request) error {
	s := slot{name, anybody}
	if name == callName {
		s = t.slotOf(ws, name, r.Caller)
	}

	t.mu.Lock()
	t.dropLocked(t.dirLocked(ws), s.stream())
	t.mu.Unlock()
	stream := t.newContent(ws)
	defer stream.discard()

	q := r.forService(ws)
	defer q.Done()

	q.Out = stream
	a, err := t.call(ws, r, q, request)
	if err != nil {
		a = service.Failed(err)
	}

	a.Stream = stream.size > maxInline || !a.Inline(stream.all())
	storeErr := t.storeAnswer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(a) })
	if storeErr != nil { // the answer is too large: the error is shorter
		_ = t.storeAnswer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(service.Failed(storeErr)) })
		return storeErr
	}

	if a.Stream {
		t.keepStream(ws, s, n, stream)
	}

	return err
}

// call runs a request in JSON when it may run.
func (t *Tree) call(ws *snapshot.Workspace, r Request, q *service.Request, request []byte) (a service.Answer, err error) {
	args, err := service.ParseCall(request)
	if err != nil {
		return a, err
	}

	err = t.runWhenAllowed(ws, r, args, false, func(ctx context.Context) (err error) {
		a, err = t.Service.Call(ctx, q, args)
		return err
	})

	return a, err
}

// keepStream makes the stream of an answer a file, unless the file with the answer was removed. s is the
// slot of that file.
func (t *Tree) keepStream(ws *snapshot.Workspace, s slot, n *node, w *contentWriter) {
	t.mu.Lock()
	defer t.mu.Unlock()

	d := t.dirLocked(ws)
	c := w.releaseLocked()
	if d.current[s] == nil {
		return
	}

	stream := &node{kind: nodeAnswer, mode: typeFile | 0o400, content: c}
	if n != nil && n.private() {
		stream.owner = n.owner
	}

	t.addLocked(d, s.stream(), stream)
}
