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
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Commands take this way:
//
//	Write, renamePrivate   submit     has the command that was written performed
//	Mkdir, Rmdir, Rename
//	  perform, runCall     ask the service when it is their turn, and keep the answer

// Write runs a command, whose error is that of write(2). Neither OPEN nor FLUSH reach the
// daemon, so each write is a whole command unless its text shows that more follows. The
// offset does not matter to the command. The node that it was written to then shows blanks
// up to the end of the write and the answer behind them, so that a program that continues
// with read(2) gets all of it.
func (t *Tree) Write(id live.NodeID, data []byte, off int64, r Request) (int, error) {
	n, err := t.get(id)
	if err != nil && r.Carried != nil {
		n, err = t.adopt(id, data, r)
	}
	if err != nil {
		return 0, err
	}
	if n.kind == scratch {
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
	wrote := len(data)
	if err = t.submit(n.dir.ws, n.slot.name, n, line, r); err != nil {
		wrote = 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.begin = off + int64(wrote); n.begin > maxBegin || n.kind == rendered { // the policy shows no answer
		n.begin = 0
	}
	return wrote, err
}

// maxBegin is where an answer can begin at most in the file that its command was written to.
const maxBegin = 64 << 20

// scheduled runs an operation when it may run. What keeps a processor busy waits for others of its
// tenant, and takes turns with those of all; other requests wait while too many of their tenant run.
// If atOnce is set, the kernel's reader waits for it instead where the row of the operation says so.
func (t *Tree) scheduled(ws *snapshot.Workspace, r Request, args any, atOnce bool, fn func(context.Context) error) error {
	switch o := service.OpOf(args); {
	case atOnce && o.AtOnce && !service.Fetches(args):
		return fn(context.Background())
	case o.Cost != service.Cheap:
		return t.compute(ws, r, fn)
	}
	return t.limited(t.tenant(ws).commands, r, fn)
}

// submit performs what was written to a control file, or to the private file n.
func (t *Tree) submit(ws *snapshot.Workspace, name string, n *node, line []byte, r Request) error {
	release, err := t.hold(ws, int64(len(line)))
	if err != nil {
		return err
	}
	defer release()
	if name == callName || isCall(name) {
		return t.runCall(ws, name, n, line, r)
	}
	args, err := service.Written(name).FromLine(string(line))
	if err != nil && r.Carried != nil {
		return errUnanswered // an earlier write had the beginning of the command
	}
	return t.perform(ws, name, n, r, args, err)
}

// hold reserves room for a command that may wait.
func (t *Tree) hold(ws *snapshot.Workspace, size int64) (release func(), err error) {
	w := t.newContent(ws)
	if err := t.reserve(w.tenant, 0, size); err != nil {
		return nil, err
	}
	w.reserved = size
	return w.discard, nil
}

// perform asks the service, and keeps the answer for the next
// reader of the file. n, if set, is the node that the request was written to. With err the
// request is wrong, and that is the answer.
func (t *Tree) perform(ws *snapshot.Workspace, name string, n *node, r Request, args any, err error) error {
	began := time.Now()
	var result any
	if err == nil {
		err = t.scheduled(ws, r, args, true, func(ctx context.Context) (err error) {
			result, err = t.Service.Do(ctx, r.ask(ws), args)
			return err
		})
	}
	if err != nil {
		if e := (*errs.Error)(nil); !errors.As(err, &e) { // the service has logged its own
			t.log.Info("control command refused", "workspace", ws.Name(), "file", name, "err", err)
		}
	}
	if name == policyName { // the file shows the policy itself
		if err == nil {
			return nil
		}
		name, n = createName, nil
	}
	took := time.Since(began)
	return errors.Join(err, t.answer(ws, name, n, r.Caller, func(w io.Writer) error { return writeAnswer(w, shown(result), err, took) }))
}

// answer keeps what write writes as the answer that a file shows.
func (t *Tree) answer(ws *snapshot.Workspace, name string, n *node, who actors.Caller, write func(io.Writer) error) error {
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
	of := bytes.TrimSuffix(bytes.TrimPrefix(bytes.TrimSpace(fields.Bytes()), []byte("{")), []byte("}"))
	if len(of) > 0 {
		of = append(of, ',')
	}
	_, err = fmt.Fprintf(w, "{\"ok\":true,%s\"ms\":%g}\n", of, float64(took.Microseconds())/1000)
	return err
}

// keepAnswer makes what was written the answer that a file shows. The node that the
// command was written to shows it as well, for a program that reads from the same
// descriptor; the name gets a new node.
func (t *Tree) keepAnswer(ws *snapshot.Workspace, name string, n *node, who actors.Caller, w *contentWriter) {
	own := t.slotOf(ws, name, who)
	t.mu.Lock()
	defer t.mu.Unlock()
	c := w.releaseLocked()
	d := t.dirLocked(ws)
	d.changed = now()
	f, _ := findFile(name)
	m := &node{kind: answer, mode: f.kind | f.mode, content: c}
	switch {
	case n == nil || !n.private():
		if own.user != anybody {
			t.addLocked(d, slot{name, anybody}, &node{kind: answer, mode: m.mode, content: c})
		}
		t.addLocked(d, own, m)
	case d.current[n.slot] == n:
		m.kind, m.mode, m.owner = n.kind, n.mode, n.owner
		t.addLocked(d, n.slot, m)
	default: // its name is gone
		n.content = c
		t.resizeLocked(n)
		return
	}
	if n != nil {
		n.content, n.same, n.mtime = c, nil, now()
		if c.Size() > maxBlock { // it has room once only
			n.content, n.same = nil, m
		}
		t.resizeLocked(n)
	}
}

// shown is what a control file shows of a result; `info@NAME` has all about a snapshot.
func shown(result any) any {
	const maxPaths = 100
	switch v := result.(type) {
	case info.Info:
		return named{v.Name, v.Seq}
	case service.PushedList:
		return v.Pushed[0]
	case snapshot.RestoreResult:
		if len(v.Paths) > maxPaths {
			v.Paths, v.More = v.Paths[:maxPaths], true
		}
		return v
	}
	return result
}

type named struct {
	Name string `json:"name"`
	Seq  uint64 `json:"seq"`
}

// maxInline is how long a stream is at most that is a part of the answer, in bytes.
const maxInline = 64 << 10

// runCall performs a request to `call`, or to the call file n. The stream of an
// operation, such as a diff, is a part of the answer when it is short and text; else it
// is in a file beside the answer. There is an answer whether the request fails or not.
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
	q := r.ask(ws)
	defer q.Done()
	q.Out = stream
	var a service.Answer
	args, err := service.ParseCall(request)
	if err == nil {
		err = t.scheduled(ws, r, args, false, func(ctx context.Context) (err error) {
			a, err = t.Service.Call(ctx, q, args)
			return err
		})
	}
	if err != nil {
		a = service.Failed(err)
	}
	a.Stream = stream.size > maxInline || !a.Inline(stream.all())
	if writing := t.answer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(a) }); writing != nil {
		_ = t.answer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(service.Failed(writing)) })
		return writing
	}
	if a.Stream {
		t.keepStream(ws, s, n, stream)
	}
	return err
}

// keepStream keeps the stream of an answer in a file beside it, unless the file with the
// answer has gone.
func (t *Tree) keepStream(ws *snapshot.Workspace, of slot, n *node, w *contentWriter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	c := w.releaseLocked()
	if d.current[of] == nil {
		return
	}
	s := &node{kind: answer, mode: typeFile | 0o400, content: c}
	if n != nil && n.private() {
		s.owner = n.owner
	}
	t.addLocked(d, of.stream(), s)
}
