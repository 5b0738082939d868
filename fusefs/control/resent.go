package control

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The files of this tree end with the daemon. When a daemon ends, the kernel sends its unanswered
// requests to the next one. If a request was carried out, it is answered from its record
// (Request.Carried). If it was not, it fails, because the file that it needs no longer exists. So no
// command is run twice, and no request gets the answer to another one.

// errUnanswered is the error for a request that may have been carried out, and whose answer is lost.
var errUnanswered = fmt.Errorf("%w: the daemon ended before it answered a command, which it may have carried out", unix.EIO)

// lostAnswer is the content of a file whose last answer ended with the previous daemon. The kernel asks
// for the bytes of a file that is not empty, and ReadAt fails.
var lostAnswer = newContentOf([]byte{'\n'})

// TakeOver is called before the first request of a mount that another daemon has served. That daemon may
// have stored answers in the files of the workspaces whose views are lower than view.
func (t *Tree) TakeOver(view uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.inherited = view
}

// recreate creates the node with an id of the previous daemon, to which a command was written that was
// carried out. The program that has the file open can then read the answer.
func (t *Tree) recreate(id live.NodeID, data []byte, r Request) (*node, error) {
	ws, name := r.Carried.Workspace, r.carriedFile(data)
	if ws == nil || name == "" {
		return nil, errUnanswered
	}

	f, _ := findFile(name)
	n := &node{id: id, kind: nodeAnswer, mode: f.kind | f.mode, mtime: now(), kernelRefs: 1}
	if isPrivate(id) {
		n.kind, n.mode, n.owner = nodeCall, typeFile|0o600, &r.Caller
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	n.dir, n.slot = t.dirLocked(ws), slot{name, anybody}
	if n.private() {
		n.slot.name += "./" // the name of the call file is not known: this one cannot be looked up
	}

	t.mu.nodes[id] = n
	n.element = n.dir.tenant.nodes.PushFront(n)
	t.resizeLocked(n)

	return n, nil
}

// carriedFile returns the control file to which the command of r.Carried was written, "" if it is not
// known. data is the text of the command, nil if that is not known.
func (r Request) carriedFile(data []byte) string {
	if _, err := service.ParseCall(data); err == nil {
		return callName
	}

	switch c := r.Carried; {
	case c.Captured.Name != "":
		return createName
	case c.Edit != nil:
		return restoreName
	case c.Forked != "":
		return forkName
	}

	return ""
}

// renameLost answers a request to rename a private file of the previous daemon. The command in the file
// was carried out, or it is lost.
func (t *Tree) renameLost(ws *snapshot.Workspace, to string, r Request) error {
	c := r.Carried
	switch {
	case isPrivateName(to):
		return nil // the file no longer exists under either name
	case c == nil || to != r.carriedFile(nil):
		return errUnanswered
	case to == createName:
		return t.perform(ws, to, nil, r, snapshot.CaptureOptions{}, nil)
	case to == restoreName:
		return t.perform(ws, to, nil, r, snapshot.RestoreOptions{}, nil)
	}

	return t.perform(ws, to, nil, r, snapshot.ForkOptions{}, nil)
}
