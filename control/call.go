package control

import (
	"context"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// `call` takes one request in JSON and says what came of it. What `call` says is the
// last answer to anybody; a program that does not want to share it makes a file of its
// own, `call.ANYTHING`, which nobody else may read or write.
//
// The stream of an operation, such as a diff, is a part of the answer when it is short
// and text. Else it is the content of a file beside it, `call.ANYTHING.stream`, which
// goes when the call file does or takes another request.
const streamSuffix = ".stream"

// maxCalls is how many such files one user may have in a directory: one more, and the
// oldest goes.
const maxCalls = 256

// createCall makes a call file of the caller's own.
func (t *Tree) createCall(ws *snapshot.Workspace, name string, who live.Caller) (Entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	if _, ok := d.owners[name]; ok {
		return Entry{}, live.ErrExist
	}
	if strings.HasSuffix(name, streamSuffix) {
		return Entry{}, live.ErrPerm
	}
	if own := d.callsOf(who.UID); len(own) >= maxCalls {
		d.dropCall(own[0])
		t.Kernel.DropEntries([]live.Entry{d.entryOf(own[0])})
	}
	d.calls = append(d.calls, name)
	d.owners[name] = who
	n := t.addLocked(d, name, typeFile|0o600)
	n.owner = &who
	return n.entryLocked(live.Attr{}), nil
}

// callsOf are the call files of a user, oldest first.
func (d *directory) callsOf(uid uint32) []string {
	return slices.DeleteFunc(slices.Clone(d.calls), func(name string) bool { return d.owners[name].UID != uid })
}

func (d *directory) dropCall(name string) {
	d.calls = without(d.calls, name)
	delete(d.owners, name)
	d.setResult(name, nil)
	d.setResult(name+streamSuffix, nil)
}

// lookupCall finds a call file of somebody's own.
func (t *Tree) lookupCall(ws *snapshot.Workspace, name string) (Entry, error) {
	t.mu.Lock()
	d := t.dirLocked(ws)
	base, isStream := strings.CutSuffix(name, streamSuffix)
	owner, found := d.owners[base]
	c := d.results[name].retain()
	t.mu.Unlock()
	switch {
	case isStream && c == nil, !found && base != callName:
		return Entry{}, live.ErrNotExist
	case isStream && !found:
		return t.publish(ws, name, typeFile|0o400, c, subject{}, nil), nil
	case isStream:
		return t.publish(ws, name, typeFile|0o400, c, subject{}, &owner), nil
	}
	return t.publish(ws, name, typeFile|0o600, c, subject{}, &owner), nil
}

// renameCall makes the last answer of a caller's own file that of another one, or of
// `call`. The request was carried out when it was written.
func (t *Tree) renameCall(ws *snapshot.Workspace, from, to string) error {
	if to != callName && !isCall(to) {
		return live.ErrPerm
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	c, stream, owner := d.results[from].retain(), d.results[from+streamSuffix].retain(), d.owners[from]
	if c == nil {
		return errs.New(errs.Invalid, "%s holds no whole request", from)
	}
	d.dropCall(from)
	delete(d.current, from)
	delete(d.current, to)
	if to != callName {
		d.calls = append(without(d.calls, to), to)
		d.owners[to] = owner
	}
	d.setResult(to, c)
	d.setResult(to+streamSuffix, stream)
	return nil
}

// runCall carries out a request. The answer is there whatever becomes of it.
func (t *Tree) runCall(ctx context.Context, ws *snapshot.Workspace, name string, request []byte, r Request) (result, error) {
	stream := &contentWriter{store: t.store}
	t.dropStream(ws, name)
	q := r.ask(ws)
	defer q.Done()
	q.Out = stream
	a, failed := t.Service.Call(ctx, q, request)
	c, err := stream.content()
	if err != nil {
		return result{}, err
	}
	if c.file != nil || !a.Inline(c.bytes()) {
		a.Stream = true
		t.keepStream(ws, name, c)
	}
	w := &contentWriter{store: t.store}
	if err := encodeJSON(w, a); err != nil {
		w.discard()
		return result{}, err
	}
	whole, err := w.content()
	if err != nil {
		return result{}, err
	}
	return result{whole: whole}, failed
}

func (t *Tree) dropStream(ws *snapshot.Workspace, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dirLocked(ws).setResult(name+streamSuffix, nil)
}

// keepStream keeps what belongs to the answer in a file beside it, which is whose the
// file with the answer is, and goes with it.
func (t *Tree) keepStream(ws *snapshot.Workspace, name string, c *content) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	d.tenant.chargeLocked(c)
	d.setResult(name+streamSuffix, c)
}
