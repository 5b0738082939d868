package fusefs

import (
	"errors"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// dirAttr returns the attributes of a control directory: the owner and the
// permissions of the workspace's root, and the time of the last change.
func (c *control) dirAttr(id live.NodeID) (live.Attr, error) {
	ws, forks, err := c.workspace(id)
	if err != nil {
		return live.Attr{}, err
	}
	root, err := c.fs.forest.GetAttr(ws.Root())
	if err != nil {
		return live.Attr{}, err
	}
	c.mu.Lock()
	changed := max(c.mu.touched[ws.View()], root.Btime)
	c.mu.Unlock()
	if !forks {
		if latest, err := ws.Find(latestName); err == nil {
			changed = max(changed, latest.Created.UnixNano())
		}
	}
	return live.Attr{
		ID: id, Mode: syscall.S_IFDIR | root.Mode&0o777, UID: root.UID, GID: root.GID, Nlink: 2, Size: 4096, Blocks: 8,
		Atime: changed, Mtime: changed, Ctime: changed, Btime: root.Btime,
	}, nil
}

// lookup resolves a name in a control directory.
func (c *control) lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	dir := live.NodeID(h.NodeId)
	if len(name) > 255 {
		return fuse.Status(syscall.ENAMETOOLONG)
	}
	ws, forks, err := c.workspace(dir)
	if err != nil {
		return c.fs.status("lookup", dir, err)
	}
	if forks {
		return c.lookupFork(ws, name, out)
	}
	if f, ok := findControlFile(name); ok {
		return c.lookupFile(ws, f, out)
	}
	if n := c.scratch(ws, name); n != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answerNodeLocked(n, out)
		return fuse.OK
	}
	if q, ok := parseQuery(name); ok {
		if err := c.lookupQuery(cancel, h, ws, name, q, out); err != nil {
			if errors.Is(err, live.ErrTooBig) {
				c.fs.log.Warn("a control file is not rendered", "workspace", ws.Name(), "file", name, "err", err)
			}
			return c.miss(dir, err)
		}
		return fuse.OK
	}
	return c.lookupSnapshot(ws, name, out)
}

// lookupQuery finds a generated file. As long as both sides of a diff are the
// same it is not rendered again, though its name is looked up for every step
// of `less diff@v1`.
func (c *control) lookupQuery(cancel <-chan struct{}, h *fuse.InHeader, ws *snapshot.Workspace, name string, q query, out *fuse.EntryOut) error {
	of, err := c.subject(ws, q)
	if err != nil {
		return err
	}
	if c.known(ws, name, of, out) {
		return nil
	}
	ctx, stop := interruptible(cancel, h)
	defer stop()
	content, err := c.renderQuery(ctx, ws, q)
	if err != nil {
		return err
	}
	mode := uint32(typeFile | 0o444)
	if q.what != "info" {
		mode = c.tellingMode()
	}
	c.publish(ws, name, mode, content, of, out)
	return nil
}

// known answers with the present node of a generated file if it was made from the
// same.
func (c *control) known(ws *snapshot.Workspace, name string, of subject, out *fuse.EntryOut) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.mu.current[fileKey{ws.View(), name}]
	if n == nil || n.of != of || of == (subject{}) {
		return false
	}
	c.answerNodeLocked(n, out)
	return true
}

// tellingMode is the mode of files that tell names and contents of other files,
// whoever may read those: where other users are let in, it is for the owner of the
// workspace.
func (c *control) tellingMode() uint32 {
	if c.fs.opts.AllowOther {
		return typeFile | 0o400
	}
	return typeFile | 0o444
}

// miss answers a lookup that failed. A name that cannot be one of a snapshot
// is just not there.
func (c *control) miss(dir live.NodeID, err error) fuse.Status {
	if errors.Is(err, snapshot.ErrBadName) || errors.Is(err, snapshot.ErrNameTooLong) {
		return fuse.ENOENT
	}
	return c.fs.status("lookup", dir, err)
}

func (c *control) lookupFile(ws *snapshot.Workspace, f controlFile, out *fuse.EntryOut) fuse.Status {
	dir := snapshotsID(ws.View())
	switch f.name {
	case originName:
		return c.lookupSnapshot(ws, f.name, out)
	case latestName, undoName:
		info, err := ws.Find(f.name)
		if err != nil {
			return c.miss(dir, err)
		}
		c.publish(ws, f.name, typeLink|0o777, []byte(info.Name), subject{}, out)
		return fuse.OK
	case logName:
		return c.lookupLog(ws, out)
	}
	content, err := c.render(ws, f.name)
	if err != nil {
		return c.fs.status("lookup", dir, err)
	}
	mode := uint32(typeFile | 0o444)
	if f.writable {
		mode |= 0o200
	}
	c.publish(ws, f.name, mode, content, subject{}, out)
	return fuse.OK
}

// lookupLog finds the event log. It keeps its node while it grows, so that
// `tail -f` has something to follow.
func (c *control) lookupLog(ws *snapshot.Workspace, out *fuse.EntryOut) fuse.Status {
	if c.fs.opts.Control.Log == nil {
		return fuse.ENOENT
	}
	c.mu.Lock()
	n := c.mu.current[fileKey{ws.View(), logName}]
	c.mu.Unlock()
	if n == nil || n.log.Stale() {
		log, err := c.fs.opts.Control.Log(ws)
		if err != nil {
			return c.fs.status("lookup", snapshotsID(ws.View()), err)
		}
		size := log.Size()
		c.mu.Lock()
		n = c.addLocked(ws, logName, c.tellingMode())
		n.log, n.shown = log, size
		c.mu.Unlock()
	}
	c.freshen(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answerNodeLocked(n, out)
	return fuse.OK
}

// lookupSnapshot finds a snapshot. Its other names (cp-3, the digits of an id)
// are symlinks to it: a directory can have only one name in the kernel.
func (c *control) lookupSnapshot(ws *snapshot.Workspace, name string, out *fuse.EntryOut) fuse.Status {
	dir := snapshotsID(ws.View())
	info, err := ws.Find(name)
	if err != nil {
		return c.miss(dir, err)
	}
	if info.Name != name && name != originName {
		c.publish(ws, name, typeLink|0o777, []byte(info.Name), subject{}, out)
		return fuse.OK
	}
	return c.fs.status("lookup", dir, c.answerSnapshot(ws, info, out))
}

// answerSnapshot answers with the root of a snapshot. Its attributes and all
// below never change, but its name may go.
func (c *control) answerSnapshot(ws *snapshot.Workspace, info snapshot.Info, out *fuse.EntryOut) error {
	a, err := c.fs.forest.GetAttr(live.Node(info.View, live.RootIno))
	if err != nil {
		return err
	}
	c.fs.captured.Store(info.View, info.Created.UnixNano())
	c.home.Store(info.View, ws.View())
	c.fs.entry(out, &a)
	out.SetEntryTimeout(named)
	return nil
}

func (c *control) lookupFork(ws *snapshot.Workspace, name string, out *fuse.EntryOut) fuse.Status {
	fork, err := ws.ForkNamed(name)
	if err != nil {
		return fuse.ENOENT
	}
	return c.fs.status("lookup", forksID(ws.View()), c.answerFork(fork, out))
}

// answerFork answers with the root of a fork.
func (c *control) answerFork(fork *snapshot.Workspace, out *fuse.EntryOut) error {
	a, err := c.fs.forest.GetAttr(fork.Root())
	if err != nil {
		return err
	}
	c.fs.entry(out, &a)
	out.SetEntryTimeout(named)
	return nil
}

// scratch returns a scratch file of .snapshots, nil when there is none of this
// name.
func (c *control) scratch(ws *snapshot.Workspace, name string) *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.mu.current[fileKey{ws.View(), name}]; n != nil && n.scratch {
		return n
	}
	return nil
}
