package fusefs

import (
	"cmp"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/wire"
	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// maxEntryNotices is the largest number of names that are dropped one by one. For more names, it is cheaper
	// to drop all names in the kernel's cache.
	maxEntryNotices = 4000
	// slowNoticeTime is how long an edit waits for its notices before a warning is logged. A notice waits
	// while a process has the directory locked and waits for the answer to a request.
	slowNoticeTime = 2 * time.Second
	// maxPageWait bounds how long a write to a control file waits until the file's pages are dropped.
	maxPageWait = 20 * time.Millisecond
)

// A notifier makes the kernel drop cached names and pages when the daemon itself changes a tree.
//
// To drop a name the kernel locks its directory, which a process may have locked while its
// request waits for an answer. Hence notices are written by goroutines that hold no lock
// and answer no request. The caller of a restore waits for them without a time limit. This is safe
// because the caller has locked no directory of the workspace: a rename in .snapshots locks only
// .snapshots.
//
// There are three queues, which do not wait for each other: a notice for a name in .snapshots may wait for
// the rename that runs a restore, and a notice for a page of a control file may wait for the write that runs
// a restore.
type notifier struct {
	log *slog.Logger
	fd  int // a duplicate of the FUSE device, which is closed with the notifier

	// mayUseEpoch reports whether INC_EPOCH may be used now. The kernel must support it. No file
	// system may be mounted inside the workspace: a dropped name would unmount it. No overlay may
	// have a layer in the mount: the whole layer would fail with ESTALE for good.
	mayUseEpoch func() bool

	// mountPoints reads the mount points inside the mount, see the function mountPoints.
	mountPoints func() func(view uint32) []string

	mountedNames mountedNames
	// onUnnamed is called with each node that lost its name, after the kernel dropped the name. It may
	// be nil.
	onUnnamed func(live.NodeID)
	// held reports whether the kernel may hold a node. It is nil if the kernel may hold every node.
	held func(live.NodeID) bool

	pendingEditCount atomic.Int64 // edits whose changes are in the tree and whose notices are not written yet
	staleNameCount   atomic.Int64 // names that the kernel has not dropped yet for these edits

	treeQueue queue // names and pages in workspaces
	nameQueue queue // names in .snapshots and .forks
	pageQueue queue // pages of control files

	writers sync.WaitGroup // the goroutines that write notices
}

// close waits until all enqueued notices are written, and closes the descriptor.
func (n *notifier) close() {
	for _, q := range []*queue{&n.treeQueue, &n.nameQueue, &n.pageQueue} {
		q.mu.Lock()
		q.closed = true
		q.mu.Unlock()
	}

	n.writers.Wait()
	unix.Close(n.fd)
}

// enqueue starts a goroutine that calls the function write after the earlier notices of the queue are written.
// The returned channel is closed when write has returned; it is nil if the notifier is closed.
func (n *notifier) enqueue(q *queue, write func()) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()

	if q.closed {
		return nil
	}

	before, done := q.newestDone, make(chan struct{})
	q.newestDone = done
	n.writers.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}

		guard.Call(n.log, "notifying the kernel", write)
	})

	return done
}

// onReplaced is called when an edit has changed names in the tree, and before other changes of the view
// continue. It returns true if the kernel looks every name up again from now on. In this case no program
// finds an outdated name, not even while the notices are written.
func (n *notifier) onReplaced(changedNames int) (epoch bool) {
	n.pendingEditCount.Add(1)
	if epoch = changedNames > maxEntryNotices && n.mayUseEpoch(); epoch {
		n.send(wire.IncEpoch())
	}
	return epoch
}

// invalidate drops the names and pages in inv, after onReplaced was called for the edit. When the kernel has
// dropped them, invalidate calls onDropped and returns.
func (n *notifier) invalidate(inv live.Invalidation, onDropped func()) {
	n.staleNameCount.Add(int64(len(inv.Entries)))
	n.await(n.enqueue(&n.treeQueue, func() { n.drop(inv); onDropped() }), len(inv.Entries))
	n.pendingEditCount.Add(-1)
	// Wait also for the notices that onRenamed has enqueued since, because they drop outdated names too.
	n.await(n.treeQueue.lastWritten(), 0)
}

// await waits until done, a channel that enqueue returned, is closed. After slowNoticeTime it logs a warning
// with nameCount, the number of names in the notices.
func (n *notifier) await(done <-chan struct{}, nameCount int) {
	if !waitFor(done, slowNoticeTime) {
		n.log.Warn("the kernel is slow to drop names, and the restore, merge or import that changed them waits for it",
			"names", nameCount, "waited", slowNoticeTime)
		<-done
	}
}

// onRenamed is called when a program has renamed a file to a name in the directory dir. If the old name was
// outdated in the kernel's cache because of an edit, the kernel now has the outdated node under the new name,
// so onRenamed drops the new name, too. The kernel has the directory locked until it has received the answer and
// carried out the rename.
func (n *notifier) onRenamed(dir live.NodeID, name string) {
	if n.pendingEditCount.Load() > 0 {
		n.enqueue(&n.treeQueue, func() { n.send(wire.InvalEntry(dir, name)) })
	}
}

// DropPages drops the cached pages of a control file, for a request that writes to
// the file, and waits for at most maxPageWait. As a rule the pages are dropped at once, because the kernel
// unlocked the pages with valid contents before it sent the write. A page that is still locked has no valid
// contents, so no read can return outdated bytes from it.
func (n *notifier) DropPages(id live.NodeID) {
	waitFor(n.enqueue(&n.pageQueue, func() { n.send(wire.InvalPages(id, 0)) }), maxPageWait)
}

// dropRefusedPages has the kernel drop the pages of a file. It is called when the daemon has refused a request
// by which the kernel wrote some of the pages back.
func (n *notifier) dropRefusedPages(id live.NodeID) {
	n.enqueue(&n.pageQueue, func() { n.send(wire.InvalPages(id, 0)) })
}

// DropTail drops the cached pages of a control node from the byte offset off to the end, before it returns. It
// must not be called for a request that has locked a page of the node; only a write locks pages.
func (n *notifier) DropTail(id live.NodeID, off int64) { n.send(wire.InvalPages(id, off)) }

// dropAttr drops the attributes of a node before it returns. It may be called while a request is answered: for
// this notice the kernel needs no lock that the program behind the request could have.
func (n *notifier) dropAttr(id live.NodeID) { n.send(wire.InvalPages(id, -1)) }

// isOutdated reports whether the kernel may have found a node under a name that is outdated: an edit has
// replaced the node, and the kernel has not dropped the name yet. Then the caller answers with ESTALE, and the
// kernel looks the whole path up again and repeats the request.
func (n *notifier) isOutdated(forest *live.Forest, id live.NodeID) bool {
	if n.pendingEditCount.Load() == 0 {
		return false
	}
	a, err := forest.GetAttr(id)
	return err == nil && a.Nlink == 0
}

// drop has the kernel drop the names and pages in inv.
func (n *notifier) drop(inv live.Invalidation) {
	beforeDropping()

	if inv.AllNamesExpire {
		n.repeatEpoch(inv.Entries)
	} else {
		n.dropNames(inv.Entries)
	}

	for _, e := range inv.Entries {
		if e.HeldNode != 0 && n.onUnnamed != nil {
			n.onUnnamed(e.HeldNode)
		}
	}

	for _, id := range inv.Inodes {
		if n.mayHold(id) {
			n.send(wire.InvalPages(id, 0))
		}
	}
}

func (n *notifier) dropNames(entries []live.Entry) {
	// If there are many names, those of directories are dropped first, because with the name of a directory the
	// kernel also drops the names below it.
	if len(entries) > maxEntryNotices {
		entries = slices.Clone(entries)
		slices.SortStableFunc(entries, func(a, b live.Entry) int { return cmp.Compare(dropOrder(a), dropOrder(b)) })
	}

	remaining := int64(len(entries))
	defer func() { n.staleNameCount.Add(-remaining) }()

	for _, e := range n.deferMounted(entries) {
		switch {
		case !n.mayHold(e.Parent):
			// No notice is needed: the kernel does not hold the directory, so it has none of its names.
		case e.HeldNode != 0 && !e.WasDir:
			n.send(wire.DeleteEntry(e.Parent, e.Name, e.HeldNode))
		default:
			// For a directory, the notice is not DeleteEntry, so inotify does not report the removal: the
			// report would crash the library @parcel/watcher.
			n.send(wire.InvalEntry(e.Parent, e.Name))
		}

		n.staleNameCount.Add(-1)
		remaining--
	}
}

// dropOrder returns the sort key of a name: 0 for directories, which are dropped first, and 1 for other
// names.
func dropOrder(e live.Entry) int {
	if e.WasDir {
		return 0
	}
	return 1
}

// repeatEpoch sends a second INC_EPOCH. The kernel may have asked for a listing before the first INC_EPOCH,
// and have processed the answer after it: then the names of the listing count as new, although they are
// outdated (fuse_direntplus_link in fs/fuse/readdir.c). A directory is locked while it is listed, so a notice
// for one of its names returns after the listing.
func (n *notifier) repeatEpoch(entries []live.Entry) {
	notified := make(map[live.NodeID]bool) // directories for which a notice was sent
	for _, e := range entries {
		if !notified[e.Parent] && n.mayHold(e.Parent) {
			notified[e.Parent] = true
			n.send(wire.ExpireEntry(e.Parent, e.Name))
		}
	}

	n.send(wire.IncEpoch())
	n.staleNameCount.Add(-int64(len(entries)))
}

// mayHold reports whether the kernel may hold a node.
func (n *notifier) mayHold(id live.NodeID) bool {
	return n.held == nil || id.Ino() == live.RootIno || n.held(id)
}

func (n *notifier) send(b []byte) {
	if err := wire.Send(n.fd, b); err != nil && !errors.Is(err, unix.EBADF) {
		n.log.Warn("the kernel refused a notice", "err", err)
	}
}

// waitFor waits until a channel is closed, and returns false if the channel is still open after the timeout. A
// nil channel counts as closed.
func waitFor(done <-chan struct{}, timeout time.Duration) bool {
	if done == nil {
		return true
	}

	select {
	case <-done:
		return true
	case <-time.After(timeout):
		return false
	}
}

// A queue writes notices one after the other. Each write waits until the channel of the previous write is
// closed.
type queue struct {
	mu         sync.Mutex    // guards the fields below
	newestDone chan struct{} // closed when the newest notice is written; nil before the first notice
	closed     bool
}

// lastWritten returns a channel that is closed when all notices that are in the queue now are written; nil if
// the queue has had no notice yet.
func (q *queue) lastWritten() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.newestDone
}
