package fusefs

import (
	"cmp"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/snapshot/live"
)

const (
	// manyEntries is how many names are dropped one by one; dropping all
	// together is cheaper beyond.
	manyEntries = 4000
	// slowNotices is how long an edit waits for its notices before the log says so. It takes that
	// long when a name's directory is locked by a process whose request waits for something else.
	slowNotices = 2 * time.Second
	// pageWait bounds how long a write to a control file waits until the file's pages are dropped.
	pageWait = 20 * time.Millisecond
)

// A notifier makes the kernel drop what it has cached when the daemon itself changes a tree.
//
// To drop a name the kernel locks its directory, which a process may have locked while its
// request waits for an answer. Hence notices are written by goroutines that hold no lock
// and answer no request. The caller of a restore waits for them, however long that takes, because
// it has locked no directory of the workspace: a rename in .snapshots locks only .snapshots. See
// "Edits" in the documentation of the package.
//
// There are three queues, which do not wait for each other. The notice of a name in .snapshots
// may wait for the rename that runs a restore, and that of a page of a control file for the
// write that runs it.
type notifier struct {
	log *slog.Logger
	fd  int // a duplicate of the FUSE device, which is closed with the notifier

	// mayEpoch reports whether INC_EPOCH may be used now: the kernel supports it, nothing
	// is mounted inside of the workspace, which a name that is dropped would unmount, and the
	// mount has no layer of an overlay, for which all of that layer would be ESTALE for good.
	mayEpoch func() bool

	// mountPoints reads where something is mounted.
	mountPoints func() func(view uint32) []string

	beneath beneath
	// gone is called with what lost its name, when the kernel knows. May be nil.
	gone func(live.NodeID)
	// held reports whether the kernel may hold a node; nil if it may hold all.
	held func(live.NodeID) bool

	edits atomic.Int64 // edits in place whose notices are not written yet
	stale atomic.Int64 // names that the kernel has still to drop for them

	trees, names, pages queue
	running             sync.WaitGroup // those that write
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

	before, done := q.last, make(chan struct{})
	q.last = done
	n.running.Go(func() {
		defer close(done)
		if before != nil {
			<-before
		}

		guard.Call(n.log, "notifying the kernel", write)
	})

	return done
}

// replaced is called when an edit of so many names is in place, and changes of its view still
// wait. It reports whether the kernel looks every name up again from now on: then no program
// finds an outdated name, not even while the notices are written.
func (n *notifier) replaced(names int) (epoch bool) {
	n.edits.Add(1)
	if epoch = names > manyEntries && n.mayEpoch(); epoch {
		n.send(incEpoch())
	}
	return epoch
}

// invalidate has everything in inv dropped, of which the edit was replaced before. It returns
// when the kernel did so. told is called when the kernel did so.
func (n *notifier) invalidate(inv live.Invalidation, told func()) {
	n.stale.Add(int64(len(inv.Entries)))
	n.await(n.put(&n.trees, func() { n.drop(inv); told() }), len(inv.Entries))
	n.edits.Add(-1)
	n.await(n.trees.written(), 0) // what renamed put
}

// await waits for a notice of so many names.
func (n *notifier) await(done <-chan struct{}, names int) {
	if !waitFor(done, slowNotices) {
		n.log.Warn("the kernel is slow to drop names, and the restore, merge or import that changed them waits for it",
			"names", names, "waited", slowNotices)
		<-done
	}
}

// renamed is called when a program has renamed something in a directory. If the kernel still took
// the name for what an edit replaced, it now takes the new one for that, so the new one is
// dropped, too. The kernel has locked the directory until it has the answer and has renamed.
func (n *notifier) renamed(to live.NodeID, name string) {
	if n.edits.Load() > 0 {
		n.put(&n.trees, func() { n.send(invalEntry(to, name)) })
	}
}

// DropPages has the cached pages of a control file dropped, for a request that
// writes to it. The kernel has unlocked a page that it could serve reads from
// before it sent the write, so as a rule this is done at once. A page that it
// has locked it can serve nothing from; then there is nothing to wait for.
func (n *notifier) DropPages(id live.NodeID) {
	waitFor(n.put(&n.pages, func() { n.send(invalPages(id, 0)) }), pageWait)
}

// DropTail drops the cached pages of a control node from a byte on, before it
// returns. It must not be called from a request that has locked a page of the
// node, which is only a write.
func (n *notifier) DropTail(id live.NodeID, from int64) { n.send(invalPages(id, from)) }

// dropAttr drops the attributes of a node before it returns. The kernel locks
// nothing for that which a request could hold.
func (n *notifier) dropAttr(id live.NodeID) { n.send(invalPages(id, -1)) }

func (n *notifier) drop(inv live.Invalidation) {
	beforeDropping()

	if inv.Epoch {
		n.settle(inv.Entries)
	} else {
		n.dropNames(inv.Entries)
	}

	for _, e := range inv.Entries {
		if e.Gone != 0 && n.gone != nil {
			n.gone(e.Gone)
		}
	}

	for _, id := range inv.Inodes {
		if n.holds(id) {
			n.send(invalPages(id, 0))
		}
	}
}

func (n *notifier) dropNames(entries []live.Entry) {
	// What is below a directory goes with its name.
	if len(entries) > manyEntries {
		entries = slices.Clone(entries)
		slices.SortStableFunc(entries, func(a, b live.Entry) int { return cmp.Compare(depthOf(a), depthOf(b)) })
	}

	left := int64(len(entries))
	defer func() { n.stale.Add(-left) }()

	for _, e := range n.notMounted(entries) {
		switch {
		case !n.holds(e.Parent):
			// Of a directory that the kernel does not hold, it has no names.
		case e.Gone != 0 && !e.WasDir:
			n.send(deleted(e.Parent, e.Name, e.Gone))
		default:
			// A directory is not reported as removed: @parcel/watcher would crash.
			n.send(invalEntry(e.Parent, e.Name))
		}

		n.stale.Add(-1)
		left--
	}
}

func depthOf(e live.Entry) int {
	if e.WasDir {
		return 0
	}
	return 1
}

// settle has every name looked up again once more, after the listings that the kernel asked for
// before the first time: it takes their names for new ones when it gets to them (fuse_direntplus_link
// in fs/fuse/readdir.c). A directory is locked while it is listed, so a notice for one of its
// names is written when that is over.
func (n *notifier) settle(entries []live.Entry) {
	settled := make(map[live.NodeID]bool)
	for _, e := range entries {
		if !settled[e.Parent] && n.holds(e.Parent) {
			settled[e.Parent] = true
			n.send(expired(e.Parent, e.Name))
		}
	}

	n.send(incEpoch())
	n.stale.Add(-int64(len(entries)))
}

// holds reports whether the kernel may hold a node.
func (n *notifier) holds(id live.NodeID) bool {
	return n.held == nil || id.Ino() == live.RootIno || n.held(id)
}

func (n *notifier) send(b []byte) {
	if err := send(n.fd, b); err != nil && !errors.Is(err, unix.EBADF) {
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

// A queue has notices that are written one after the other.
type queue struct {
	mu     sync.Mutex
	last   chan struct{} // closed when the last one is written
	closed bool
}

// written returns what is closed when all notices are written that are in the queue now; nil if
// there was none yet.
func (q *queue) written() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.last
}

// notice makes a message without a request, which write(2) on the FUSE device carries out
// before it returns (fuse_notify in fs/fuse/dev.c). A name follows the body. It is not made
// by go-fuse, which knows no INC_EPOCH.
func notice(code int32, body any, name string) []byte {
	b, _ := binary.Append(make([]byte, outHeader), binary.NativeEndian, body) // of a fixed size
	if name != "" {
		b = append(append(b, name...), 0)
	}

	binary.NativeEndian.PutUint32(b, uint32(len(b)))
	// An answer has -errno, a notice its code as it is: go-fuse's
	// constants are negated codes.
	binary.NativeEndian.PutUint32(b[4:], uint32(-code))

	return b
}

// invalPages drops the pages of a node from a byte on, and its attributes: of a file its
// bytes, of a directory its listing. From byte -1 on it is the attributes alone.
func invalPages(id live.NodeID, from int64) []byte {
	return notice(fuse.NOTIFY_INVAL_INODE, fuse.NotifyInvalInodeOut{Ino: uint64(id), Off: from, Length: -1}, "")
}

// invalEntry drops what the kernel knows about a name, also that it is absent.
func invalEntry(parent live.NodeID, name string) []byte {
	return notice(fuse.NOTIFY_INVAL_ENTRY, fuse.NotifyInvalEntryOut{Parent: uint64(parent), NameLen: uint32(len(name))}, name)
}

// expired has the kernel look a name up again. Unlike invalEntry it does no harm to a directory
// that was made under that name meanwhile: if its name were dropped, getcwd would fail for the
// programs in it. Before Linux 6.2 the kernel drops it all the same.
func expired(parent live.NodeID, name string) []byte {
	out := fuse.NotifyInvalEntryOut{Parent: uint64(parent), NameLen: uint32(len(name)), Flags: fuse.EXPIRE_ONLY}
	return notice(fuse.NOTIFY_INVAL_ENTRY, out, name)
}

// deleted drops a name as invalEntry does, and makes inotify report that the node which
// had it was deleted.
func deleted(parent live.NodeID, name string, node live.NodeID) []byte {
	out := fuse.NotifyInvalDeleteOut{Parent: uint64(parent), Child: uint64(node), NameLen: uint32(len(name))}
	return notice(fuse.NOTIFY_DELETE, out, name)
}

// incEpoch makes every name that the kernel knows be looked up again.
func incEpoch() []byte { return notice(fuse.NOTIFY_INC_EPOCH, struct{}{}, "") }

// epochMinor is the version 7.x of the protocol that brought INC_EPOCH
// (Linux 6.16).
const epochMinor = 44

// send writes a notice or an answer. A node or name that the kernel does not
// know (ENOENT) is as good as dropped, and a request that it no longer waits
// for needs no answer. After the unmount (ENODEV) it needs none either.
func send(fd int, b []byte) error {
	for {
		_, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV):
			return nil
		case !errors.Is(err, unix.EINTR):
			return err
		}
	}
}
