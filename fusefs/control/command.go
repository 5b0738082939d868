package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
)

// The way of a command:
//
//  1. commands.write and Tree.renamePrivate pass the text of a command to submit, which parses it.
//  2. submit calls run, or runCall for a request in JSON, and stores the answer.
//  3. Mkdir, Rmdir and Rename call perform, which calls run, and keeps the result until an answer is read.
//  4. run and runCall wait for the tenant's turn, unless the operation runs inline, and call the service.

// commands runs the commands that are written to files, and keeps their answers.
type commands struct {
	cache   *cache
	queue   *queue
	service *service.Service
	kernel  Kernel
}

// write runs a command, whose error becomes the error of write(2). Neither OPEN nor FLUSH reaches the daemon,
// so each write counts as a whole command unless its text shows that more follows. A write at any offset is a
// command. Afterwards the file has blanks up to the end of the write, and the answer after them, so that a
// program that continues with read(2) gets the whole answer.
func (c *commands) write(n node, data []byte, off int64, r Request) (int, error) {
	f, in := n.core(), n.input()
	if f.mode&0o200 == 0 {
		return 0, errs.Perm
	}

	c.cache.mu.Lock()
	cached := in.pagesCached
	in.pagesCached = false
	isEnd := off > 0 && off == in.unendedOffset && string(data) == "\n" // the newline of the last command, in a write of its own
	if in.unendedOffset = 0; !isEnd && !bytes.HasSuffix(data, []byte("\n")) {
		in.unendedOffset = off + int64(len(data))
	}
	c.cache.mu.Unlock()
	if cached {
		c.kernel.DropPages(f.id)
	}

	if isEnd {
		return len(data), nil
	}

	line := c.assembleCommand(n, data, r.Caller)
	if line == nil {
		return len(data), nil
	}

	c.cache.mu.Lock()
	in.runningCount++
	c.cache.mu.Unlock()

	wrote := len(data)
	err := c.submit(f.dir.ws, f.key.name, n, line, r)
	if err != nil {
		wrote = 0
	}

	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	in.runningCount--

	if a := answerOf(n); a != nil { // only nodes that show answers have blanks before the content
		if a.blankCount = off + int64(wrote); a.blankCount > maxBlanks {
			a.blankCount = 0
		}
	}

	return wrote, err
}

// maxBlanks is the largest number of blanks before an answer. After a write with a larger offset, the answer
// has none.
const maxBlanks = 64 << 20

// submit runs the command in line. It was written to the node n of the file called name. n is nil for a
// scratch file that is renamed to name.
func (c *commands) submit(ws *snapshot.Workspace, name string, n node, line []byte, r Request) error {
	charge := c.cache.newContentWriter(ws) // charges the bytes of the command while it waits
	if err := charge.reserve(int64(len(line))); err != nil {
		return err
	}
	defer charge.discard()

	if name == callName || isCall(name) {
		return c.runCall(ws, name, n, line, r)
	}

	args, err := service.FindLineOp(name).ParseLine(string(line))
	if err != nil && r.Carried != nil {
		// The line is only the end of a command. The previous daemon received its beginning, which is lost.
		return errUnanswered
	}

	o := c.run(ws, name, r, args, err)
	if name == policyName { // the file policy shows no answers, so the file create shows the error
		if o.err == nil {
			return nil
		}
		name, n = createName, nil
	}

	if n == nil && o.isSmall(args) { // without a charge that could fail: the operation was carried out
		c.cache.keepOutcome(ws, name, r.Caller, o)
		return o.err
	}

	return errors.Join(o.err, c.storeAnswer(ws, name, n, r.Caller, o.write))
}

// perform runs the operation of args, and returns its result. It keeps the result, from which the answer is written
// when the file called name is read. If err is not nil, the request is malformed, and err is the answer.
func (c *commands) perform(ws *snapshot.Workspace, name string, r Request, args any, err error) (any, error) {
	o := c.run(ws, name, r, args, err)
	c.cache.keepOutcome(ws, name, r.Caller, o)
	return o.result, o.err
}

// run runs the operation of args, and logs its error. If err is not nil, the command is malformed, and err is its
// outcome.
func (c *commands) run(ws *snapshot.Workspace, name string, r Request, args any, err error) *outcome {
	began := time.Now()
	r.Workspace = ws
	defer r.Release()

	o := &outcome{err: err}
	switch {
	case err != nil:
	case service.OpOf(args).RunsInline(ws, args):
		o.result, o.err = c.service.Do(context.Background(), &r.Request, args)
	default:
		o.err = c.queue.run(ws, r, args, func(ctx context.Context) (err error) {
			o.result, err = c.service.Do(ctx, &r.Request, args)
			return err
		})
		if brief := service.OpOf(args).ControlFiles.BriefResult; o.err == nil && brief != nil {
			o.result = brief(o.result)
		}
	}

	o.duration = time.Since(began)
	if e := (*errs.Error)(nil); o.err != nil && !errors.As(o.err, &e) { // package service has logged its own errors already
		c.service.Log.Info("control command refused", "workspace", ws.Name(), "file", name, "err", o.err)
	}

	return o
}

// storeAnswer calls the function write, and stores the text that it writes as the answer of a file, see keepAnswer.
func (c *commands) storeAnswer(ws *snapshot.Workspace, name string, n node, who actors.Caller, write func(io.Writer) error) error {
	w := c.cache.newContentWriter(ws)
	if err := write(w); err != nil {
		w.discard()
		return err
	}

	c.keepAnswer(ws, name, n, who, w)
	return nil
}

// keepAnswer makes the text of w the content of a file: the file gets a new node for the caller, and one for
// the workspace's owner. The node n to which the command was written shows the answer, too, for a program
// that reads from the same descriptor. If n is a private file that was removed or renamed, only n shows the
// answer.
func (c *commands) keepAnswer(ws *snapshot.Workspace, name string, n node, who actors.Caller, w *contentWriter) {
	callerSlot := keyOf(ws, name, who)
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	text := w.releaseLocked()
	d := c.cache.dirLocked(ws)
	d.changedAt = now()
	f, _ := findFile(name)
	newest := &answerFile{inode: inode{mode: f.kind | f.mode}, content: text}
	written := answerOf(n)

	switch private, ok := n.(callFile); {
	case !ok:
		if callerSlot.user != anybody {
			c.cache.addLocked(d, nodeKey{name, anybody}, &answerFile{inode: inode{mode: newest.mode}, content: text})
		}
		c.cache.addLocked(d, callerSlot, newest)
		delete(d.outcomes, nodeKey{name, anybody})
		delete(d.outcomes, nodeKey{name, int64(who.UID)})

	case d.nodes[private.key] == n:
		newest.mode, newest.owner = private.mode, private.owner
		c.cache.addLocked(d, private.key, callFile{newest})
	default:
		// The private file was removed or renamed, so no name gets a new node.
		private.content = text
		c.cache.rechargeLocked(n)
		return
	}

	if written == nil {
		return
	}

	written.content, written.replacement, written.mtime = text, nil, now()
	// A large content is charged only once: n shows the content of the new node, instead of having it too.
	if text.Size() > maxBlockSize {
		written.content, written.replacement = nil, newest
	}

	c.cache.rechargeLocked(n)
}

// maxInlineStreamBytes is the size of the longest stream that is a part of its answer.
const maxInlineStreamBytes = 64 << 10

// runCall runs a request in JSON that was written to `call` or to the call file n, and stores the answer,
// also if the request fails. The stream of an operation, such as a diff, is a part of the answer if it is
// short and text. Otherwise the stream gets a file of its own.
func (c *commands) runCall(ws *snapshot.Workspace, name string, n node, request []byte, r Request) error {
	s := nodeKey{name, anybody}
	if name == callName {
		s = keyOf(ws, name, r.Caller)
	}

	c.cache.mu.Lock()
	c.cache.dropNameLocked(c.cache.dirLocked(ws), s.streamKey())
	c.cache.mu.Unlock()
	stream := c.cache.newContentWriter(ws)
	defer stream.discard()

	r.Workspace, r.Out = ws, stream
	defer r.Release()

	a, err := c.call(ws, &r, request)
	if err != nil {
		a = service.FailedAnswer(err)
	}

	a.Stream = stream.size > maxInlineStreamBytes || !a.Inline(stream.copyBytes())
	storeErr := c.storeAnswer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(a) })
	if storeErr != nil { // the answer is too large: store the error instead, which is shorter
		_ = c.storeAnswer(ws, name, n, r.Caller, func(w io.Writer) error { return gitquote.Encoder(w).Encode(service.FailedAnswer(storeErr)) })
		return storeErr
	}

	if a.Stream {
		c.keepStream(ws, s, n, stream)
	}

	return err
}

// call runs a request in JSON when it is the tenant's turn.
func (c *commands) call(ws *snapshot.Workspace, r *Request, request []byte) (a service.Answer, err error) {
	args, err := service.ParseCall(request)
	if err != nil {
		return a, err
	}

	err = c.queue.run(ws, *r, args, func(ctx context.Context) (err error) {
		a, err = c.service.Call(ctx, &r.Request, args)
		return err
	})

	return a, err
}

// keepStream stores the stream of an answer in a file of its own, unless the file with the answer was removed.
// s is the key of the file with the answer.
func (c *commands) keepStream(ws *snapshot.Workspace, s nodeKey, n node, w *contentWriter) {
	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	d := c.cache.dirLocked(ws)
	text := w.releaseLocked()
	if d.nodes[s] == nil {
		return
	}

	stream := &answerFile{inode: inode{mode: typeFile | 0o400}, content: text}
	if private, ok := n.(callFile); ok {
		stream.owner = private.owner
	}

	c.cache.addLocked(d, s.streamKey(), stream)
}
