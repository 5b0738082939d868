package control

import (
	"strings"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/live"
)

// A private file is a file that a program creates in .snapshots. A scratch file (create.tmp.1) collects a
// command, which runs when the file is renamed onto a control file. A call file (call.ANYTHING) takes
// requests as `call` does, but only its user may read and write it. Private files are in the tenant's
// part of the cache, so the least recently used one is removed if there are too many.

// maxScratch is the size in bytes of the largest scratch file.
const maxScratch = 64 << 10

// streamSuffix ends the name of the file with the stream of an answer, for streams that are too long for
// the answer or not text. The file is removed with the call file, or when the call file takes another
// request.
const streamSuffix = ".stream"

// Create creates a scratch file or a call file. Files with other names cannot be created.
func (t *Tree) Create(dir live.NodeID, name string, mode uint32, who actors.Caller) (Entry, error) {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return Entry{}, err
	}

	n := &node{kind: nodeScratch, mode: typeFile | mode&0o777, owner: &who}
	kind := mode & syscall.S_IFMT
	switch _, taken := findFile(name); {
	case taken && !forks:
		return Entry{}, errs.Exist
	case forks || kind != 0 && kind != syscall.S_IFREG:
		return Entry{}, errs.Perm
	case isCall(name) && !strings.HasSuffix(name, streamSuffix):
		n.kind, n.mode = nodeCall, typeFile|0o600
	case !isScratch(name):
		return Entry{}, errs.Perm
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	d, s := t.dirLocked(ws), slot{name, anybody}
	if d.current[s] != nil {
		return Entry{}, errs.Exist
	}

	return t.addLocked(d, s, n).entryLocked(live.Attr{}), nil
}

// Unlink removes a private file. The private files of the previous daemon no longer exist, so a request
// that is sent again succeeds without a file.
func (t *Tree) Unlink(dir live.NodeID, name string, r Request) error {
	ws, forks, err := t.workspace(dir)
	if err != nil {
		return err
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	d := t.dirLocked(ws)
	n := d.current[slot{name, anybody}]
	switch {
	case !forks && n == nil && isPrivateName(name) && r.Resent:
		return nil
	case !forks && n == nil && isPrivateName(name):
		return errs.NotExist
	case forks || n == nil || !n.private():
		return errs.Perm
	}

	t.dropLocked(d, n.slot)
	t.dropLocked(d, n.slot.stream())

	return nil
}

// stream returns the slot of the stream of an answer.
func (s slot) stream() slot { return slot{s.name + streamSuffix, s.user} }

// dropLocked removes the name of a slot's node, and the node if the kernel has no reference to it.
func (t *Tree) dropLocked(d *directory, s slot) {
	n := d.current[s]
	if n == nil {
		return
	}

	n.unnameLocked()
	if n.kernelRefs == 0 {
		t.removeLocked(n)
	}
}

// privateFile returns the private file with a name, nil if there is none.
func (t *Tree) privateFile(ws *snapshot.Workspace, name string) *node {
	if n := t.current(ws, slot{name, anybody}); n != nil && n.private() {
		return n
	}
	return nil
}

// lookupStream returns the stream of an answer.
func (t *Tree) lookupStream(ws *snapshot.Workspace, name string, who actors.Caller) (Entry, error) {
	s := slot{name, anybody}
	if name == callName+streamSuffix {
		s = t.slotOf(ws, name, who)
	}
	if n := t.current(ws, s); n != nil {
		return t.entry(n), nil
	}

	return Entry{}, errs.NotExist
}

// renamePrivate renames a private file. If a scratch file is renamed onto a control file, its content is
// submitted as a command to that file. The rename of a call file moves its answer.
func (t *Tree) renamePrivate(n *node, to string, r Request) error {
	switch {
	case n.kind == nodeCall:
		return t.renameCall(n, to, r)
	case isCommand(to):
		t.mu.Lock()
		line := n.content.all()
		t.mu.Unlock()
		if err := t.submit(n.dir.ws, to, nil, line, r); err != nil {
			return err
		}

		t.mu.Lock()
		defer t.mu.Unlock()

		t.dropLocked(n.dir, n.slot)

		return nil

	case !isScratch(to):
		return errs.Perm
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	n.moveLocked(t, slot{to, anybody})

	return nil
}

// moveLocked moves a node to another slot, whose node it replaces.
func (n *node) moveLocked(t *Tree, to slot) {
	t.dropLocked(n.dir, to)
	n.unnameLocked()
	n.slot = to
	n.dir.current[to] = n
}

// renameCall renames a call file with an answer to another call file or to `call`.
func (t *Tree) renameCall(n *node, to string, r Request) error {
	moved := slot{to, anybody}
	switch {
	case to == callName:
		moved = t.slotOf(n.dir.ws, to, r.Caller)
	case !isCall(to) || strings.HasSuffix(to, streamSuffix):
		return errs.Perm
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	d := n.dir
	if n.content == nil {
		return errs.New(errs.Invalid, "%s has no complete request", n.slot.name)
	}

	stream := d.current[n.slot.stream()]
	if to == callName {
		n.kind, n.owner = nodeAnswer, nil
	}

	n.moveLocked(t, moved)
	t.dropLocked(d, moved.stream())

	if stream != nil {
		stream.owner = n.owner
		stream.moveLocked(t, moved.stream())
	}

	return nil
}

// writeScratch writes to a scratch file. It fails with errs.TooBig if the file would be too large.
func (t *Tree) writeScratch(n *node, data []byte, off int64) (int, error) {
	end := off + int64(len(data))
	if off < 0 || end > maxScratch {
		return 0, errs.TooBig
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	b := resize(n.content.all(), int(max(end, n.content.Size())))
	copy(b[off:], data)
	n.content, n.mtime = newContentOf(b), now()
	t.resizeLocked(n)

	return len(data), nil
}
