package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/policy"
)

// Write runs a command. There is no open file to collect it in, as neither OPEN nor
// FLUSH reach us, so each write is a whole command unless it can be seen not to be; its
// error is that of write(2). Where in the file it goes does not matter.
func (t *Tree) Write(id live.NodeID, data []byte, off int64, r Request) (int, error) {
	n, err := t.get(id)
	if err != nil {
		return 0, err
	}
	if n.scratch {
		return t.writeScratch(n, data, off)
	}
	if n.mode&0o200 == 0 {
		return 0, live.ErrPerm
	}
	if t.uncache(n) {
		t.Kernel.DropPages(n.id)
	}
	line := t.assemble(n, data, r.Caller)
	if line == nil {
		return len(data), nil
	}
	err = t.runLine(n.dir.ws, n.name, string(line), r)
	t.showResult(n)
	if err != nil {
		return 0, err
	}
	return len(data), nil
}

// uncache reports whether the kernel may have pages of a file, which it is about to
// drop.
func (t *Tree) uncache(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	cached := n.cached
	n.cached = false
	return cached
}

// showResult makes a file that a command was written to say what came of it, for
// whoever reads on with the same descriptor. Its name gets a new node.
func (t *Tree) showResult(n *node) {
	c, err := t.render(n.dir.ws, n.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		n.content.release()
		n.content = c
	}
	n.mtime = now()
	if n.dir.current[n.name] == n {
		delete(n.dir.current, n.name)
	}
}

// A result is the line of JSON that a control file shows after a command.
type result struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error,omitempty"`
	Name     string `json:"name,omitempty"`
	Seq      uint64 `json:"seq,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Fork     string `json:"fork,omitempty"`
	Changed  *int   `json:"changed,omitempty"`
	Undo     string `json:"undo,omitempty"`
	// Open are the programs that have a changed file open.
	Open    []service.Program `json:"open,omitempty"`
	Commit  string            `json:"commit,omitempty"`
	Ref     string            `json:"ref,omitempty"`
	Skipped *int              `json:"skipped,omitempty"`
	// Of a push: the name there, the remote, the id, whether it was there already,
	// and the bytes that were sent.
	As        string `json:"as,omitempty"`
	Remote    string `json:"remote,omitempty"`
	ID        string `json:"id,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`
	Bytes     *int64 `json:"bytes,omitempty"`

	MS float64 `json:"ms,omitempty"`

	// whole, if set, is what is shown instead.
	whole *content
}

// runLine carries out what was written to a control file.
func (t *Tree) runLine(ws *snapshot.Workspace, name, line string, r Request) error {
	do := func(ctx context.Context) (result, error) { return t.command(ctx, ws, name, line, r) }
	switch {
	case isQuick(name) && !(name == forkName && strings.Contains(line, "@")): // of a remote
		return t.carryOut(ws, name, atOnce, do)
	case (name == callName || isCall(name)) && service.Compares([]byte(line)):
		return t.carryOut(ws, name, func(fn func(context.Context) error) error { return t.compute(ws, r, fn) }, do)
	}
	return t.carryOut(ws, name, t.inTurn(ws, r), do)
}

// atOnce has the kernel's reader wait for a command.
func atOnce(fn func(context.Context) error) error { return fn(context.Background()) }

// inTurn has a command wait until not too many others of its tenant run.
func (t *Tree) inTurn(ws *snapshot.Workspace, r Request) func(func(context.Context) error) error {
	return func(fn func(context.Context) error) error { return t.work(t.tenant(ws).commands, r, fn) }
}

// isQuick reports whether the commands of a file are carried out at once, whatever the
// size.
func isQuick(name string) bool {
	return name == createName || name == forkName || name == policyName
}

// run carries out a command and keeps the result for whoever reads the file next.
func (t *Tree) run(ws *snapshot.Workspace, name string, r Request, fn func(context.Context) (result, error)) error {
	if isQuick(name) {
		return t.carryOut(ws, name, atOnce, fn)
	}
	return t.carryOut(ws, name, t.inTurn(ws, r), fn)
}

// carryOut has when say when a command runs, and keeps its result.
func (t *Tree) carryOut(ws *snapshot.Workspace, name string, when func(func(context.Context) error) error, fn func(context.Context) (result, error)) error {
	began := time.Now()
	var res result
	err := when(func(ctx context.Context) (err error) {
		res, err = fn(ctx)
		return err
	})
	t.finish(ws, name, res, err, began)
	return err
}

func (t *Tree) command(ctx context.Context, ws *snapshot.Workspace, name, line string, r Request) (result, error) {
	if name == callName || isCall(name) {
		return t.runCall(ctx, ws, name, []byte(line), r)
	}
	if name == policyName {
		_, err := service.Do[policy.Policy](ctx, t.Service, r.ask(ws), service.SetPolicy{Patch: []byte(line)})
		return result{}, err
	}
	if name == createName {
		return t.create(ctx, ws, line, r)
	}
	fields, err := splitFields(line)
	if err != nil {
		return result{}, err
	}
	switch {
	case name == restoreName && len(fields) > 0:
		return t.restore(ctx, ws, service.Restore{Name: fields[0], Paths: snapshot.BytePaths(fields[1:])}, r)
	case name == forkName && len(fields) == 2:
		return t.fork(ctx, ws, service.Fork{Snapshot: fields[0], Name: fields[1]}, r)
	case name == exportName && len(fields) == 1:
		return t.export(ctx, ws, service.Export{Name: fields[0]}, r)
	case name == exportName && len(fields) == 2:
		return t.export(ctx, ws, service.Export{Name: fields[0], Ref: fields[1]}, r)
	case name == pushName && len(fields) == 1:
		return t.push(ctx, ws, service.Push{Snapshots: fields}, r)
	case name == pushName && len(fields) == 2:
		return t.push(ctx, ws, service.Push{Snapshots: fields[:1], Remote: fields[1]}, r)
	}
	return result{}, errs.New(errs.Invalid, "name %s", usage[name])
}

var usage = map[string]string{
	restoreName: `the snapshot to restore, as in: echo "SNAPSHOT [PATH...]" > restore`,
	forkName:    `a snapshot and the fork, as in: echo "SNAPSHOT FORK" > fork`,
	exportName:  `a snapshot, and perhaps a ref, as in: echo "SNAPSHOT [REF]" > export`,
	pushName:    `a snapshot, and perhaps a remote, as in: echo "SNAPSHOT [REMOTE]" > push`,
}

func (t *Tree) create(ctx context.Context, ws *snapshot.Workspace, line string, r Request) (result, error) {
	var a service.Snapshot
	if isJSON([]byte(line)) {
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil {
			return result{}, errs.New(errs.Invalid, "a snapshot in JSON is one object with name, message, labels and the like: %v", err)
		}
	} else {
		a.Name, a.Message = splitLine(line)
	}
	info, err := service.Do[snapshot.Info](ctx, t.Service, r.ask(ws), a)
	return result{Name: info.Name, Seq: info.Seq}, err
}

// restore restores the whole workspace, or only some paths. When it returns the kernel
// has forgotten what is no longer so.
func (t *Tree) restore(ctx context.Context, ws *snapshot.Workspace, a service.Restore, r Request) (result, error) {
	done, err := service.Do[service.Restored](ctx, t.Service, r.ask(ws), a)
	return result{Snapshot: done.Snapshot, Changed: &done.Changed, Undo: done.Undo, Open: done.Open}, err
}

func (t *Tree) fork(ctx context.Context, ws *snapshot.Workspace, a service.Fork, r Request) (result, error) {
	done, err := service.Do[service.Forked](ctx, t.Service, r.ask(ws), a)
	return result{Snapshot: done.Snapshot, Fork: done.Name}, err
}

func (t *Tree) export(ctx context.Context, ws *snapshot.Workspace, a service.Export, r Request) (result, error) {
	done, err := service.Do[service.ExportDone](ctx, t.Service, r.ask(ws), a)
	return result{Name: done.Name, Commit: done.Commit, Ref: done.Ref, Skipped: &done.Skipped}, err
}

func (t *Tree) push(ctx context.Context, ws *snapshot.Workspace, a service.Push, r Request) (result, error) {
	done, err := service.Do[service.PushedList](ctx, t.Service, r.ask(ws), a)
	if err != nil {
		return result{}, err
	}
	p := done.Pushed[0]
	return result{Name: p.Snapshot, As: p.As, Remote: p.Remote, ID: p.ID, Unchanged: p.Unchanged, Bytes: &p.Bytes}, nil
}

// finish records how a command ended.
func (t *Tree) finish(ws *snapshot.Workspace, name string, r result, err error, began time.Time) {
	if err != nil {
		r = result{Error: err.Error(), whole: r.whole}
		if e := (*fail.Error)(nil); !errors.As(err, &e) { // else it is the service's, which has told
			t.log.Info("control command refused", "workspace", ws.Name(), "file", name, "err", err)
		}
	} else {
		r.OK = true
		r.MS = float64(time.Since(began).Microseconds()) / 1000
	}
	c := r.whole
	if c == nil {
		b, _ := renderJSON(r) // a struct of strings and numbers: cannot fail
		c = small(b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirLocked(ws)
	d.changed = now()
	if name == policyName {
		if err == nil {
			return
		}
		name = createName // the file itself goes on showing the policy
	}
	d.tenant.chargeLocked(c)
	d.setResult(name, c)
}

// renderJSON is one line of JSON, with < and > as they are: people read it too.
func renderJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	err := encodeJSON(&b, v)
	return b.Bytes(), err
}

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(gitquote.JSONWriter{To: w})
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("render: %w", err)
	}
	return nil
}
