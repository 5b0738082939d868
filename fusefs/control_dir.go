package fusefs

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

// Offsets in the listing of a control directory: the fixed names, then one for
// each snapshot by its sequence number, or fork by its view, neither of which
// is used twice. So a listing goes on where it stopped, whatever came and went.
const (
	offFixed = 16
	offNamed = 1024
)

// readdir lists a control directory. Snapshots come and go by themselves, so
// the kernel must not keep the listing; as OPENDIR is not answered it cannot be
// told. But what it keeps is useless to it when a page is missing, hence the
// pages that the answers before this one filled are dropped.
func (c *control) readdir(id live.NodeID, off uint64, l *lister) fuse.Status {
	ws, forks, err := c.workspace(id)
	if err != nil {
		return c.fs.status("readdir", id, err)
	}
	c.fs.notify.dropNow(id, 0)
	if off < offDot && !l.name(".", id, typeDir, offDot) {
		return fuse.OK
	}
	if off < offDotDot && !l.name("..", ws.Root(), typeDir, offDotDot) {
		return fuse.OK
	}
	if forks {
		c.listForks(ws, off, l)
		return fuse.OK
	}
	for i, f := range controlFiles {
		if at := uint64(offFixed + i); off < at && c.present(ws, f.name) {
			if !l.name(f.name, live.Node(controlView, classListed|uint64(i+1)), f.kind, at) {
				return fuse.OK
			}
		}
	}
	infos := ws.List()
	for _, info := range slices.Backward(infos) {
		if at := offNamed + info.Seq; off < at {
			if !l.name(info.Name, live.Node(info.View, live.RootIno), typeDir, at) {
				break
			}
		}
	}
	return fuse.OK
}

// present reports whether a control name leads somewhere just now.
func (c *control) present(ws *snapshot.Workspace, name string) bool {
	switch name {
	case latestName, undoName, originName:
		_, err := ws.Find(name)
		return err == nil
	case logName:
		return c.fs.opts.Control.Log != nil
	}
	return true
}

func (c *control) listForks(ws *snapshot.Workspace, off uint64, l *lister) {
	forks := ws.Forks()
	slices.SortFunc(forks, func(a, b snapshot.ForkInfo) int { return int(a.View) - int(b.View) })
	for _, f := range forks {
		if at := offNamed + uint64(f.View); off < at {
			if !l.name(f.Name, live.Node(f.View, live.RootIno), typeDir, at) {
				return
			}
		}
	}
}

// mkdir captures, or forks.
func (c *control) mkdir(dir live.NodeID, name string, h *fuse.InHeader, out *fuse.EntryOut) fuse.Status {
	ws, forks, err := c.workspace(dir)
	if err != nil {
		return c.fs.status("mkdir", dir, err)
	}
	began := time.Now()
	who := caller(h)
	if forks {
		fork, err := ws.Fork(context.Background(), "", name, who)
		if err == nil {
			err = c.answerFork(fork, out)
		}
		c.finish(ws, forkName, result{Fork: name}, nil, err, began)
		return fuse.Status(errno(err))
	}
	var r result
	info, err := ws.Capture(context.Background(), snapshot.CaptureOptions{
		Name: name, Origin: "manual", Caller: who, Command: commandOf(who),
	})
	if err == nil {
		r = result{Name: info.Name, Seq: info.Seq}
		err = c.answerSnapshot(ws, info, out)
	}
	c.finish(ws, createName, r, nil, err, began)
	return fuse.Status(errno(err))
}

// rmdir deletes a snapshot, or ends a fork, though neither is empty.
func (c *control) rmdir(dir live.NodeID, name string, h *fuse.InHeader) fuse.Status {
	ws, forks, err := c.workspace(dir)
	if err != nil {
		return c.fs.status("rmdir", dir, err)
	}
	began := time.Now()
	if forks {
		last, err := ws.EndFork(name, caller(h))
		c.finish(ws, forkName, result{Fork: name, Snapshot: last.Name}, nil, err, began)
		return fuse.Status(errno(err))
	}
	if err = c.checkNoControl(name, "removed"); err == nil {
		err = ws.Delete(name, caller(h))
	}
	c.finish(ws, createName, result{Name: name}, nil, err, began)
	return fuse.Status(errno(err))
}

// checkNoControl refuses what is done to the control files as if they were
// snapshots.
func (c *control) checkNoControl(name, done string) error {
	if _, ok := findControlFile(name); ok {
		return fmt.Errorf("%w: %s belongs to .snapshots and cannot be %s", snapshot.ErrProtected, name, done)
	}
	return nil
}

// rename renames a snapshot or a fork, pulls the lever that restores, or moves
// a scratch file onto a control file. Only within one control directory.
func (c *control) rename(op live.NodeID, from string, np live.NodeID, to string, flags uint32, h *fuse.InHeader) fuse.Status {
	if op != np {
		// Not EXDEV: mv would copy then, and mkdir in here captures.
		if isControl(np) {
			return fuse.EPERM
		}
		return fuse.EROFS
	}
	if flags&^unix.RENAME_NOREPLACE != 0 {
		return fuse.EINVAL
	}
	ws, forks, err := c.workspace(op)
	if err != nil {
		return c.fs.status("rename", op, err)
	}
	began, who := time.Now(), caller(h)
	if forks {
		err = ws.RenameFork(from, to)
		c.finish(ws, forkName, result{Fork: to}, nil, err, began)
		return fuse.Status(errno(err))
	}
	if name, ok := parseLever(to); ok && from == restoreName {
		r, err := c.runRestore(ws, name, nil, who)
		c.finish(ws, restoreName, r, nil, err, began)
		return fuse.Status(errno(err))
	}
	if n := c.scratch(ws, from); n != nil {
		return c.renameScratch(n, to, who)
	}
	if err = c.checkNoControl(from, "renamed"); err == nil {
		err = ws.Rename(from, to, who)
	}
	c.finish(ws, createName, result{Name: to}, nil, err, began)
	return fuse.Status(errno(err))
}

// renameScratch runs what is in a scratch file when it is moved onto a control
// file, as if it had been written there.
func (c *control) renameScratch(n *node, to string, who live.Caller) fuse.Status {
	if isCommand(to) {
		c.mu.Lock()
		line := string(n.content)
		c.mu.Unlock()
		if err := c.run(context.Background(), n.ws, to, line, who); err != nil {
			return fuse.Status(errno(err))
		}
		c.dropScratch(n)
		return fuse.OK
	}
	if !isScratch(to) {
		return fuse.EPERM
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.current, n.key)
	n.key.name = to
	c.mu.current[n.key] = n
	return fuse.OK
}

// dropOldScratchLocked counts a new scratch file in, and makes room.
func (c *control) dropOldScratchLocked(n *node) {
	c.mu.scratch = append(c.mu.scratch, n)
	if len(c.mu.scratch) <= maxScratchFiles {
		return
	}
	c.mu.scratch = slices.DeleteFunc(c.mu.scratch, func(n *node) bool { return c.mu.current[n.key] != n })
	var inv live.Invalidation
	for len(c.mu.scratch) > maxScratchFiles {
		oldest := c.mu.scratch[0]
		c.mu.scratch = c.mu.scratch[1:]
		c.dropScratchLocked(oldest)
		inv.Entries = append(inv.Entries, live.Entry{Parent: snapshotsID(oldest.key.view), Name: oldest.key.name})
	}
	c.fs.notify.later(inv)
}

func (c *control) dropScratch(n *node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropScratchLocked(n)
}

func (c *control) dropScratchLocked(n *node) {
	if c.mu.current[n.key] == n {
		delete(c.mu.current, n.key)
	}
	if !c.fs.lookups.held(n.id) {
		delete(c.mu.nodes, n.id)
	}
}

// create makes a scratch file; there is nothing else to be made as a file.
func (c *control) create(dir live.NodeID, name string, h *fuse.InHeader, mode uint32, out *fuse.EntryOut) fuse.Status {
	ws, forks, err := c.workspace(dir)
	if err != nil {
		return c.fs.status("create", dir, err)
	}
	if _, ok := findControlFile(name); ok && !forks {
		return fuse.Status(syscall.EEXIST)
	}
	if t := mode & syscall.S_IFMT; forks || !isScratch(name) || t != 0 && t != syscall.S_IFREG {
		return fuse.EPERM
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.current[fileKey{ws.View(), name}] != nil {
		return fuse.Status(syscall.EEXIST)
	}
	n := c.addLocked(ws, name, typeFile|mode&0o777)
	n.scratch, n.owner = true, caller(h)
	c.dropOldScratchLocked(n)
	c.answerNodeLocked(n, out)
	return fuse.OK
}

// unlink removes a scratch file.
func (c *control) unlink(dir live.NodeID, name string) fuse.Status {
	ws, forks, err := c.workspace(dir)
	if err != nil {
		return c.fs.status("unlink", dir, err)
	}
	if forks {
		return fuse.EPERM
	}
	n := c.scratch(ws, name)
	if n == nil {
		return fuse.EPERM
	}
	c.dropScratch(n)
	return fuse.OK
}
