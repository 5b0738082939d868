package control

import (
	"context"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
)

// maxInline is how long a stream is at most that is a part of the answer, in bytes.
const maxInline = 64 << 10

// runCall carries out a request to `call`, or to the call file n. The stream of an
// operation, such as a diff, is a part of the answer when it is short and text; else it
// is in a file beside the answer. There is an answer whether the request fails or not.
func (t *Tree) runCall(ws *snapshot.Workspace, name string, n *node, request []byte, r Request, when schedule) error {
	s := slot{name, anybody}
	if name == callName {
		s = t.slotOf(ws, name, r.Caller)
	}
	t.mu.Lock()
	t.dropLocked(t.dirLocked(ws), s.stream())
	t.mu.Unlock()
	stream, w := t.newContent(ws), t.newContent(ws)
	defer stream.discard()
	q := r.ask(ws)
	defer q.Done()
	q.Out = stream
	var a service.Answer
	err := when(func(ctx context.Context) (err error) {
		a, err = t.Service.Call(ctx, q, request)
		return err
	})
	if err != nil && a.Error == nil { // it did not run
		a = service.Failed(err)
	}
	a.Stream = stream.size > maxInline || !a.Inline(stream.all())
	if writing := encodeJSON(w, a); writing != nil {
		w.discard()
		w, a.Stream, err = t.newContent(ws), false, writing
		if encodeJSON(w, service.Failed(writing)) != nil {
			w.discard()
			return err
		}
	}
	t.keepAnswer(ws, name, n, r.Caller, w)
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
