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
// To drop a name the kernel locks its directory, which a process may hold while its
// request waits for an answer. Hence notices are written by goroutines that hold no lock
// and answer no request. The caller that made a change may wait for them, because a
// restore holds no directory of the workspace: as a rename in .snapshots the VFS has
// locked only that.
//
// There are three queues, which do not wait for each other. A name in a control directory
// may wait for the very rename that runs a restore, a page of a control file for the write
// that does.
type notifier struct {
	log *slog.Logger
	fd  int // a duplicate of the FUSE device

	// mayEpoch tells whether INC_EPOCH may be used now. The kernel must know
	// it; and as a name that is looked up again takes with it what is mounted
	// on it, nothing may be mounted inside of the workspace.
	mayEpoch func() bool

	trees, names, pages queue
	running             sync.WaitGroup // the goroutines of the queues
}

// newNotifier returns a notifier that writes to fd, which is closed with it.
func newNotifier(fd int, log *slog.Logger) *notifier {
	return &notifier{log: log, fd: fd, mayEpoch: func() bool { return false }}
}

// close waits until everything that was put has been written, and closes the descriptor.
func (n *notifier) close() {
	for _, q := range []*queue{&n.trees, &n.names, &n.pages} {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
	}
	n.running.Wait()
	unix.Close(n.fd)
}

// put has a notice written after those that are in a queue. The channel is closed when
// that is done; it is nil if the notifier is closed.
func (n *notifier) put(q *queue, write func()) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	done := make(chan struct{})
	q.jobs = append(q.jobs, func() {
		defer close(done)
		guard.Call(n.log, "telling the kernel of changes", write)
	})
	if !q.busy {
		q.busy = true
		n.running.Go(q.run)
	}
	return done
}

// invalidate has everything in inv dropped. It returns when the kernel did so,
// or after noticeWait.
func (n *notifier) invalidate(inv live.Invalidation) {
	n.await(n.later(&n.trees, inv), len(inv.Entries))
}

// await waits for a notice of so many names, for noticeWait at most.
func (n *notifier) await(done <-chan struct{}, names int) {
	if !waitFor(done, noticeWait) {
		n.log.Warn("the kernel is slow to drop names; they may look stale for a moment",
			"names", names, "waited", noticeWait)
	}
}

// later is invalidate without waiting. The channel is closed when the kernel has dropped
// everything; it is nil if there is nothing to drop.
func (n *notifier) later(q *queue, inv live.Invalidation) (done <-chan struct{}) {
	if inv.Empty() {
		return nil
	}
	return n.put(q, func() { n.drop(inv) })
}

// DropPages has the cached pages of a control file dropped, for a request that
// writes to it. The kernel has unlocked a page that it could serve reads from
// before it sent the write, so as a rule this is done at once. A page that it
// has locked it can serve nothing from; then there is nothing to wait for.
func (n *notifier) DropPages(id live.NodeID) {
	waitFor(n.put(&n.pages, func() { n.send(invalInode(id)) }), pageWait)
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

// waitFor waits for a channel to be closed, and reports false when that takes too long.
func waitFor(done <-chan struct{}, most time.Duration) bool {
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-time.After(most):
		return false
	}
}

// A queue has notices that are written one after the other, by a goroutine that ends with
// the last of them.
type queue struct {
	mu           sync.Mutex
	jobs         []func()
	busy, closed bool
}

func (q *queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.jobs) > 0 {
		job := q.jobs[0]
		q.jobs = slices.Delete(q.jobs, 0, 1) // which keeps none: one may have millions of names
		q.mu.Unlock()
		job()
		q.mu.Lock()
	}
	q.busy = false
}
