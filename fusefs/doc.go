// Package fusefs shows a store to the Linux kernel as a filesystem.
//
// Imported by: all of cmd.
//
// The package translates each request of the FUSE protocol to one call of live.Forest or, below .snapshots
// and .forks, of control.Tree. It adds the mapping of errors (errno.go), the rules for owners and modes
// (permissions), and the notices that inform the kernel of changes by the daemon.
//
// # Requests
//
// docs/dev/architecture.md draws the journey of a write. This package avoids requests where it can. It
// answers the first OPEN with ENOSYS, and then the kernel opens files without a request. It answers the first
// FLUSH likewise, so close(2) sends no request. As the writeback cache is off, the kernel sends the bytes of
// a write at once, up to 1 MiB in a request. The bytes survive the death of the daemon when write(2) returns,
// and a power cut after fsync(2).
//
// The goroutine that reads a request from /dev/fuse answers it itself, because waking another goroutine costs
// more than the work. As long as it answers requests as fast as they arrive, it is the only reader
// (readers.go). A reader polls for the next request for a moment before it sleeps (poller.go).
//
// While a goroutine answers a request that may take long, such as a command of the control tree, it does not
// count as a reader (CallBlocking). A change that a freeze or an edit holds back is parked: it takes no reader
// (parked.go). A request that needs an object on a remote, or memory, is parked too, and handled again from
// the beginning when the object or the memory is available (absent.go).
//
// A read after a write is served from the page cache without the daemon, and so are
// open, stat, and a second lookup of an absent name.
//
// # Nodes
//
// The kernel uses the forest's own node ids (live.NodeID), and stat(2) shows them as inode numbers. This
// package has no table of open files. The kernel holds a node while it has references to the
// node: each answer that returns a node adds a reference, and FORGET drops references. This package counts
// them (takeover.Lookups). A node without a name, such as an unlinked open file, is kept as long as the
// kernel holds it.
//
// # Caching
//
// The kernel may keep names, absent names, attributes, pages, symlinks and listings for a year, because
// programs change the tree only through the mount. A restore, merge or import changes the tree inside the
// daemon, and calls the notifier, which has the kernel drop exactly the changed names and pages
// (notifier.go). A file that a restore changed has another node id afterwards, so pages that are still cached
// or written under the old node id cannot be seen in the tree.
//
// EXPLICIT_INVAL_DATA is on: otherwise the kernel would drop the pages of a file at the first stat after each
// write, because that stat returns a new mtime.
//
// # Terms with the kernel
//
// ATOMIC_O_TRUNC and the writeback cache stay off, see docs/dev/RATIONALE.md.
//
// HANDLE_KILLPRIV_V2 is on: without it the kernel would send a request for security.capability before each
// write. In return the daemon must clear the set-user-ID and set-group-ID bits: for a WRITE or SETATTR with a
// flag for this, and for every chown.
//
// A notice for a name locks its directory, a notice for a page locks the page. A
// process that waits for an answer of the daemon may hold either lock. So notices are
// sent by goroutines that answer no request and hold no lock; see notifier.
//
// The daemon must never open, stat or list anything in its own mount: all readers may be busy, so that none
// answers the request.
//
// Linux 5.11 is needed, for the capabilities in requiredFlags. Linux 6.16 adds INC_EPOCH, with which a
// restore of very many files drops all names at once. NOTIFY_DELETE makes inotify(7) report the files that a
// restore removed or replaced; for watchers of directories see Options.NudgeMtime.
//
// # Locks
//
//	cache.mu              of control
//	  Forest.mu
//	    Lookups.mu        the forest asks which nodes are held (live.Mount)
//	  queue.mu            notices are put into a queue
//	removals.mu, parkingLot.mu
//	                      each alone
package fusefs
