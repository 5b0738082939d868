package control

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// What a daemon has in this tree besides snapshots and forks dies with it. A request that the
// kernel sends again was carried out, and is answered (Request.Carried); or it was not, and a file
// that it needs is outdated. So no request is carried out twice, and none succeeds beside the
// answer to another one.

// errUnanswered is for what may have been carried out, and cannot be answered.
var errUnanswered = fmt.Errorf("%w: the daemon ended before it answered a command, which it may have carried out", unix.EIO)

// adopt makes the node again that a command was written to by a request that was carried out, so
// that the program which has it open reads the answer.
func (t *Tree) adopt(id live.NodeID, data []byte, r Request) (*node, error) {
	ws, name := r.Carried.Workspace, r.carriedBy(data)
	if ws == nil || name == "" {
		return nil, errUnanswered
	}
	f, _ := findFile(name)
	n := &node{id: id, kind: answer, mode: f.kind | f.mode, mtime: now(), kernelRefs: 1}
	if isPrivate(id) {
		n.kind, n.mode, n.owner = callFile, typeFile|0o600, &r.Caller
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n.dir, n.slot = t.dirLocked(ws), slot{name, anybody}
	if n.private() {
		n.slot.name += "./" // its own is not known, and it has none any more
	}
	t.mu.nodes[id] = n
	n.place = n.dir.tenant.nodes.PushFront(n)
	t.resizeLocked(n)
	return n, nil
}

// carriedBy returns the control file that takes such a command as was carried out, "" if that is
// not known.
func (r Request) carriedBy(data []byte) string {
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

// renameLost answers the rename of a private file that a daemon before had. The command that it
// held was carried out, or is lost with it.
func (t *Tree) renameLost(ws *snapshot.Workspace, to string, r Request) error {
	c := r.Carried
	switch {
	case mayMake(to):
		return nil // what moved is outdated under each name
	case c == nil || to != r.carriedBy(nil):
		return errUnanswered
	case to == createName:
		return t.perform(ws, to, nil, r, snapshot.CaptureOptions{}, nil)
	case to == restoreName:
		return t.perform(ws, to, nil, r, snapshot.RestoreOptions{}, nil)
	}
	return t.perform(ws, to, nil, r, snapshot.ForkOptions{}, nil)
}
