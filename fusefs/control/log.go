package control

import (
	"log/slog"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/events"
)

// pageSize is the unit of the kernel's cache, in bytes.
const pageSize = 4096

// logs shows the event log of each workspace.
type logs struct {
	cache      *cache
	events     *events.Log
	kernel     Kernel
	allowOther bool // Options.AllowOther
	log        *slog.Logger
}

// lookup returns the event log of a workspace. Its node stays the same while it grows, so that `tail -f` can follow
// it. When old events were removed, the log gets a new node.
func (l *logs) lookup(ws *snapshot.Workspace, name string) Entry {
	n, ok := l.cache.currentNode(ws, nodeKey{name, anybody}).(*eventLog)
	if !ok || n.events.RemovedBytes() > 0 {
		n = l.newEventLog(ws, name)
	}
	l.updateSize(n)
	return l.cache.entry(n)
}

func (l *logs) newEventLog(ws *snapshot.Workspace, name string) *eventLog {
	reader := l.events.Reader(ws.View(), 0)
	n := &eventLog{inode: inode{mode: ownersMode(l.allowOther)}, events: reader, size: reader.Size()}
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()

	l.cache.addLocked(l.cache.dirLocked(ws), nodeKey{name, anybody}, n)

	return n
}

// updateSize records the present size of the log. If the log has grown, the kernel's last page of the log has
// zeros after the old end, so updateSize drops that page. After the drop, the kernel ignores the size in the
// answer to the present request, and asks for the size again before it reads.
func (l *logs) updateSize(n *eventLog) {
	// The log must contain the events of all requests that were answered before this request.
	if err := l.events.Flush(); err != nil {
		l.log.Warn("writing events", "err", err)
	}

	l.cache.mu.Lock()
	before, size := n.size, n.events.Size()
	n.size = size
	l.cache.mu.Unlock()
	if size != before {
		l.kernel.DropTail(n.id, before&^(pageSize-1))
	}
}
