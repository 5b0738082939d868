package control

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// The files of this tree end with the daemon. When a daemon ends, the kernel sends its unanswered requests to
// the next daemon. A request that was carried out is answered from its record (Request.Carried). A request
// that was not carried out fails, because its file no longer exists. So no command is run twice, and no
// request gets the answer to another request.

// errUnanswered is the error for a request that may have been carried out, and whose answer is lost.
var errUnanswered = fmt.Errorf("%w: the daemon ended before it answered a command, which it may have carried out", unix.EIO)

// lostAnswer is the content of a file whose last answer was lost with the previous daemon. It is not empty,
// so the kernel asks for its bytes, and ReadAt fails.
var lostAnswer = newContent([]byte{'\n'})

// TakeOver is called before the first request of a mount that another daemon has served. That daemon may have
// stored answers in the files of the workspaces whose views are lower than newView.
func (t *Tree) TakeOver(newView uint32) {
	t.firstNewView.Store(newView)
}

// recreateNode creates a node of the previous daemon again, with its id. The previous daemon carried out a
// command that was written to the node. The program that has the file open can then read the answer.
func (c *commands) recreateNode(id live.NodeID, data []byte, r Request) (node, error) {
	ws, name := r.Carried.Workspace, r.carriedFile(data)
	if ws == nil || name == "" {
		return nil, errUnanswered
	}

	f, _ := findFile(name)
	a := &answerFile{inode: inode{id: id, key: nodeKey{name, anybody}, mode: f.kind | f.mode, mtime: now(), kernelRefs: 1}}
	var n node = a
	if isPrivate(id) {
		n, a.mode, a.owner = callFile{a}, typeFile|0o600, &r.Caller
		// The name of the call file is not known. No lookup finds a name that ends in "./".
		a.key.name += "./"
	}

	c.cache.mu.Lock()
	defer c.cache.mu.Unlock()

	a.dir = c.cache.dirLocked(ws)
	c.cache.insertLocked(n)

	return n, nil
}

// carriedFile returns the control file to which the command of r.Carried was written, "" if it is not
// known. data is the text of the command, nil if that is not known.
func (r Request) carriedFile(data []byte) string {
	if _, err := service.ParseCall(data); err == nil {
		return callName
	}

	switch c := r.Carried; {
	case c.NewSnapshot.Name != "":
		return createName
	case c.EditAnswer != nil:
		return restoreName
	case c.NewFork != "":
		return forkName
	}

	return ""
}

// renameLostFile answers a request to rename a private file of the previous daemon. The command in the file was
// carried out, or is lost.
func (c *commands) renameLostFile(ws *snapshot.Workspace, to string, r Request) error {
	carried := r.Carried
	switch {
	case isPrivateName(to):
		return nil // there is nothing to rename: the file no longer exists under either name
	case carried == nil || to != r.carriedFile(nil):
		return errUnanswered
	}

	args := map[string]any{createName: snapshot.CaptureOptions{}, restoreName: snapshot.RestoreOptions{}, forkName: snapshot.ForkOptions{}}
	_, err := c.perform(ws, to, r, args[to], nil)
	return err
}
