// Package fusefs shows a store to the Linux kernel as a filesystem.
//
// It only translates: a request of the FUSE protocol becomes one call of live.Forest or,
// below .snapshots and .forks, of control.Tree. What is its own is the mapping of errors
// (errno.go), and informing the kernel of what changed behind its back.
//
// # The life of a write
//
// A program calls write(2) on a file that it opened, which we do not notice:
// OPEN was answered with ENOSYS once, and the kernel has opened files on its own
// since. The kernel copies the bytes into its page cache and, as the writeback
// cache is off, sends them at once: WRITE with the node id, the offset and up
// to 1 MiB. The goroutine that reads from /dev/fuse gets it and answers it
// itself, because waking another one costs more than the work; as long as it
// keeps up it is the only one (readers.go), and it asks for the next request for
// a moment before it sleeps (poller.go). It calls Forest.Write, which appends a
// record with the bytes to the journal, applies it to the tree in memory and
// returns. The answer goes back, and write(2) returns in the program. What it wrote
// survives the death of the daemon; after fsync(2), which becomes FSYNC and
// Forest.Sync, a power cut too. close(2) sends nothing: FLUSH was answered with
// ENOSYS as well.
//
// A goroutine that answers what may take long, such as a command of the control tree, does
// not count as a reader meanwhile (Blocking). A change that a freeze or an edit holds back is
// parked: it takes no reader (parked.go). So is a request that needs what is on another machine,
// or memory, and it is answered from its beginning when that is there (absent.go).
//
// A read that follows is served from the page cache without us, and so are
// open, stat and a failed lookup of what was looked up before.
//
// # Nodes
//
// The node id that the kernel uses is the forest's own (live.NodeID), and the
// inode number that stat(2) shows. There is no table of open files and none of
// inodes but a count, for each node that the kernel holds, of how often it was
// handed over (lookups.go). While it is held a node without a name lives on,
// which is what an unlinked open file is.
//
// # Caching
//
// The kernel may keep names, absent names, attributes, pages, symlinks and
// listings for a year, as nothing but the mount changes the tree. A restore, merge or
// import, which changes it from inside, calls the notifier, which has the
// kernel drop exactly that (notifier.go). A file that a restore changed has
// another node id afterwards, so what is still cached or written under the old
// one cannot be seen in the tree.
//
// EXPLICIT_INVAL_DATA is on: else the kernel would drop the pages of a file at
// the first stat after each write, seeing a new mtime.
//
// # What the kernel asks of us
//
// ATOMIC_O_TRUNC and the writeback cache stay off, see docs/dev/RATIONALE.md.
//
// HANDLE_KILLPRIV_V2 is on: without it each write is preceded by a request for
// security.capability. In return WRITE and SETATTR say when the set-user-ID and
// set-group-ID bits have to go, and chown always takes them.
//
// A notice for a name locks its directory, one for a page locks the page. Both
// may be held by a process that waits for our answer, so notices are sent by
// goroutines that answer nothing and hold no lock; see notifier.
//
// The daemon must never open, stat or list anything in its own mount: there
// may be no reader left to answer.
//
// Linux 5.11 is needed, for the terms in readers.go. 6.16 adds INC_EPOCH, with
// which a restore of very many files drops all names at once. NOTIFY_DELETE makes
// inotify(7) report what a restore removed or replaced; for those who
// watch a directory see Options.Nudge.
//
// # Locks
//
//	Tree.mu               of control
//	  Forest.mu
//	    lookupShard.mu    the forest asks which nodes are held (SetHeld)
//	  queue.mu            notices are put into a queue
//	removals.mu, aside.mu
//	                      each alone
package fusefs
