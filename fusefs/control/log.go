package control

import (
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
)

// page is the unit of the kernel's cache, in bytes.
const page = 4096

// lookupLog returns the event log. Its node stays the same while it grows, so that `tail -f` can follow
// it. It gets a new node when old events were removed.
func (t *Tree) lookupLog(ws *snapshot.Workspace, f file, _ Request) (Entry, error) {
	n := t.current(ws, slot{f.name, anybody})
	if n == nil || n.log.Removed() > 0 {
		n = t.openLog(ws, f.name)
	}
	t.followLog(n)
	return t.entry(n), nil
}

func (t *Tree) openLog(ws *snapshot.Workspace, name string) *node {
	log := t.Service.Events.Reader(ws.View(), 0)
	size := log.Size()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.addLocked(t.dirLocked(ws), slot{name, anybody}, &node{mode: t.ownersMode(), log: log, logSize: size})
}

// followLog records the size of a log that has grown. It does nothing for other nodes. If the log has
// grown, the kernel's last page of it has zeros after the old end, so followLog drops that page. After a
// drop, the kernel also ignores the size in the answer to the present request, and asks for the size
// again before it reads.
func (t *Tree) followLog(n *node) {
	if n.log == nil {
		return
	}
	// The log must have the events of all requests that were answered before this one.
	if err := t.Service.Events.Flush(); err != nil {
		t.Service.Log.Warn("writing events", "err", err)
	}

	t.mu.Lock()
	before, size := n.logSize, n.log.Size()
	n.logSize = size
	t.mu.Unlock()
	if size != before {
		t.Kernel.DropTail(n.id, before&^(page-1))
	}
}

// readLog reads a part of the log. It returns an error only if it read no byte.
func readLog(log *events.Reader, p []byte, off int64) (int, error) {
	size := log.Size()
	if off >= size {
		return 0, nil
	}

	n, err := log.ReadAt(p[:min(int64(len(p)), size-off)], off)
	if n > 0 {
		err = nil
	}

	return n, err
}
