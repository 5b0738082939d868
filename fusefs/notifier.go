package fusefs

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// manyEntries is how many names are dropped one by one; dropping all
	// together is cheaper beyond.
	manyEntries = 4000
	// noticeWait bounds how long whoever changed the tree waits until the
	// kernel knows. It is only reached when a name's directory is locked by
	// a process whose request waits for something else.
	noticeWait = 2 * time.Second
	// pageWait is the same for the pages of a control file.
	pageWait = 20 * time.Millisecond
)

// A notifier tells the kernel what changed from inside.
//
// To drop a name the kernel locks its directory, which a process may hold
// while its request waits for an answer. Hence the notices are written by one
// goroutine that holds no lock and answers no request. Whoever made the change
// may wait for it, because a restore holds no directory of the workspace: as a
// rename in .snapshots the VFS has locked only that.
//
// Names of control directories are dropped by a second goroutine: there the kernel may
// wait for the very rename that runs a restore. Pages of control files are by a third:
// it may wait for a page that the very write which runs a restore has locked.
type notifier struct {
	log *slog.Logger
	fd  int // a duplicate of the FUSE device

	// mayEpoch tells whether INC_EPOCH may be used now. The kernel must know
	// it; and as a name that is looked up again takes with it what is mounted
	// on it, nothing may be mounted inside of the workspace.
	mayEpoch func() bool

	trees queue[treeNotice]
	names queue[treeNotice]
	pages queue[pageNotice]
}

type treeNotice struct {
	inv  live.Invalidation
	done chan struct{}
}

type pageNotice struct {
	id   live.NodeID
	done chan struct{}
}

// newNotifier returns a notifier that writes to fd, which is closed with it.
func newNotifier(fd int, log *slog.Logger) *notifier {
	n := &notifier{log: log, fd: fd, mayEpoch: func() bool { return false }}
	n.trees.init()
	n.names.init()
	n.pages.init()
	return n
}

// run writes notices until close is called, and then closes the descriptor.
func (n *notifier) run() {
	var wg sync.WaitGroup
	for _, q := range []*queue[treeNotice]{&n.trees, &n.names} {
		wg.Go(func() {
			for t, ok := q.get(); ok; t, ok = q.get() {
				guard.Call(n.log, "telling the kernel of changes", func() { n.drop(t.inv) })
				close(t.done)
			}
		})
	}
	wg.Go(func() {
		for p, ok := n.pages.get(); ok; p, ok = n.pages.get() {
			guard.Call(n.log, "telling the kernel of changes", func() { n.send(invalInode(p.id)) })
			close(p.done)
		}
	})
	wg.Wait()
	unix.Close(n.fd)
}

func (n *notifier) close() {
	n.trees.close()
	n.names.close()
	n.pages.close()
}

// invalidate has everything in inv dropped. It returns when the kernel did so,
// or after noticeWait.
func (n *notifier) invalidate(inv live.Invalidation) {
	n.await(n.later(&n.trees, inv), len(inv.Entries))
}

// await waits for a notice of so many names, for noticeWait at most.
func (n *notifier) await(done <-chan struct{}, names int) {
	if done == nil {
		return
	}
	timer := time.NewTimer(noticeWait)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		n.log.Warn("the kernel is slow to drop names; they may look stale for a moment",
			"names", names, "waited", noticeWait)
	}
}

// later is invalidate for who does not wait. The channel is closed when the kernel
// knows; it is nil when there is nothing to tell, or nobody.
func (n *notifier) later(q *queue[treeNotice], inv live.Invalidation) (done <-chan struct{}) {
	if inv.Empty() {
		return nil
	}
	t := treeNotice{inv: inv, done: make(chan struct{})}
	if !q.put(t) {
		return nil
	}
	return t.done
}

// DropPages has the cached pages of a control file dropped, for a request that
// writes to it. The kernel has unlocked a page that it could serve reads from
// before it sent the write, so as a rule this is done at once. A page that it
// has locked it can serve nothing from; then there is nothing to wait for.
func (n *notifier) DropPages(id live.NodeID) {
	p := pageNotice{id: id, done: make(chan struct{})}
	if !n.pages.put(p) {
		return
	}
	timer := time.NewTimer(pageWait)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
	}
}

// DropTail drops the cached pages of a control node from a byte on, before it
// returns. It must not be called from a request that has locked a page of the
// node, which is only a write.
func (n *notifier) DropTail(id live.NodeID, from int64) { n.send(invalPages(id, from)) }

// dropAttr drops the attributes of a node before it returns. The kernel locks
// nothing for that which a request could hold.
func (n *notifier) dropAttr(id live.NodeID) { n.send(invalAttr(id)) }

func (n *notifier) drop(inv live.Invalidation) {
	if len(inv.Entries) > manyEntries && n.mayEpoch() {
		n.send(incEpoch())
	} else {
		for _, e := range inv.Entries {
			// A directory is not reported as removed: @parcel/watcher would crash.
			if e.Gone != 0 && !e.WasDir {
				n.send(deleted(e.Parent, e.Name, e.Gone))
			} else {
				n.send(invalEntry(e.Parent, e.Name))
			}
		}
	}
	for _, id := range inv.Inodes {
		n.send(invalInode(id))
	}
}

func (n *notifier) send(b []byte) {
	if err := send(n.fd, b); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.EBADF) {
		n.log.Warn("the kernel refused a notice", "err", err)
	}
}

// A queue is a channel without a limit.
type queue[T any] struct {
	mu     sync.Mutex
	filled sync.Cond
	items  []T
	closed bool
}

func (q *queue[T]) init() { q.filled.L = &q.mu }

// put adds an item; it reports false when the queue is closed.
func (q *queue[T]) put(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.items = append(q.items, item)
	q.filled.Signal()
	return true
}

// get waits for an item; it reports false when the queue is closed and empty.
func (q *queue[T]) get() (item T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 {
		if q.closed {
			return item, false
		}
		q.filled.Wait()
	}
	item = q.items[0]
	q.items = slices.Delete(q.items, 0, 1) // which keeps none: one may be of millions of names
	return item, true
}

func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
