// Package live implements the file trees that programs in the mount change: it creates,
// writes, renames and removes files.
//
// Imported by: all of cmd, all of fusefs, all of service, snapshot, snapshot/engine, snapshot/repair, stream,
// other modules.
//
// # Concepts
//
// A Forest contains every file tree of a store. Each tree is a view: one for the
// workspace `main`, one for each fork, and a read-only one for each
// snapshot. A view is a tree.State, a persistent table of inodes. A freeze of a view increments
// the epoch: a change never modifies a page of an older epoch, but
// a copy of the page. So a capture is a copy of a pointer and a new epoch.
//
// A node has a NodeID: the number of the view in the upper 28 bits,
// the inode number in the lower 36. Inode numbers come from one counter of the
// store and are never used again. So a file keeps its inode number as long as it exists,
// in the workspace and in its snapshots.
//
// # Changes
//
// A request takes the lock of the forest and checks whether the change is possible. Then it
// prepares the change (view.prepare): it reads all objects that the change needs, and copies
// the pages that it will change. Other requests do not see these copies, so a damaged object
// is an error of this one request. Then it appends one record to the journal and applies the
// record to the state, which cannot fail. Recovery applies the same records with the same
// functions (see replay.go), so a change has one implementation. The bytes of a small write are in
// its record. The bytes of a large write are in an earlier record (a blob), which is appended without
// the lock. In both cases the content of the file then refers to the journal.
//
// Operations that change a whole view (a restore, an import, a merge) work on a copy of the view: an
// Edit. An edit has an epoch of its own and works without the lock, while changes of its
// view wait. Package graft makes its steps. Either each step is journaled when it is
// made, or the resulting state is sealed. Tx.Apply replaces the view by the copy, while the caller
// holds the lock under which it has appended the edit's record.
//
// An inode without a name to which the kernel still has a reference is an orphan. Orphans are
// in a state of their own, and captures do not contain them. An orphan is removed when the kernel drops its
// last reference (Forget), for which the lock is held only for reading. A checkpoint stores the
// orphans. Recovery does not know which references the kernel has, and keeps all orphans. A
// daemon that takes over the connection to the kernel then checks each of them
// (Takeover.Inherit). Without a takeover they are dropped (Takeover.Disinherit).
//
// # Records
//
// Each operation makes its record. record.go encodes and decodes records; ../FORMAT.md has the
// fields. A decoder refuses a record with fewer or more fields, so a new field needs a new type.
//
// # Locks
//
//	Forest.mu              the forest's lock (trees.mu): every view, the epoch, the counters, and the catalogue
//	  journal              taken under it for an append
//	  tree.Source          taken under it for cached objects
//	  orphanSet.mu         taken under it, for one view
//	journal.UnreferencedBytes   positions of bytes to which no record refers yet; no other lock is held with it
//
// A request does not read from disk under the forest's lock. To read a file, it takes the places of the
// bytes under the lock and reads them afterwards. If it needs a page that is not in memory, the
// error is a tree.Unread, or a cas.AbsentError if the object is on another machine. The request
// begins again when the page is in memory (tree.Again, cas.Retry).
package live
