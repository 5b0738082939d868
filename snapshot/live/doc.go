// Package live is the mutable file tree: what a program in the mount creates,
// writes, renames and removes.
//
// # Concepts
//
// A Forest holds every file tree of a store. Each tree is a view: the
// workspace `main`, one more for each fork, and one, read-only, for each
// snapshot. A view is a tree.State: a persistent table of inodes that is
// copied page by page when it is changed after it was frozen. To freeze is to
// count the epoch up: whatever was written in an older epoch is never changed
// again, so a capture is a copy of a pointer and a new epoch.
//
// A node is named by its NodeID: the number of the view in the upper 28 bits,
// the inode number in the lower 36. Inode numbers come from one counter of the
// store and are never used again, so a file has one number for its life, the
// same in the workspace and in its snapshots but for the view.
//
// # The life of a change
//
// A request checks under the lock what it needs, and makes the epoch's own what it
// is about (Forest.prepare): this reads what is needed, and changes nothing that
// others see, so damage is an error of this one change. It then appends one record
// to the journal and applies it to the state, which does not fail any more. Recovery
// applies the same records with the same functions (see replay.go), so there is one
// way in which a change comes about. The bytes of a write lie in the record itself,
// or, when they are many, in a record before it that is written without the
// lock; the content of the file then refers to that place in the journal.
//
// What changes a whole view (a restore, an import, a merge) is made on a copy: an
// Edit. It works in an epoch of its own, without the lock, while changes of this one
// view wait. Package graft makes its steps. They are written to the journal as they are
// made, or the result is sealed. Tx.Apply puts the copy in place in one step with the
// record of that.
//
// An inode without a name that the kernel still holds is an orphan: it is in a state of its
// own, is part of no capture, and goes when the kernel forgets it, for which the lock is
// held for reading only. A checkpoint stores the orphans. Recovery does not know which
// nodes the kernel holds, and keeps all; what is left of them depends on who opens the
// store: a daemon that takes the connection to the kernel over asks (Forest.Inherit), for
// all others the connection is over (Forest.Disinherit).
//
// # Records
//
// A record is written by the operation that it describes, and read by one function for
// each type (record.go); ../FORMAT.md has the fields.
//
// # Locks
//
//	Forest.mu            every view, the epoch, the counters; the catalogue of package snapshot
//	  journal            inside, for an append
//	  tree.Source        inside, for cached objects
//	  orphans.mu         inside, of one view
//	journal.Unreferenced positions of bytes written but not yet referred to; never held with another
//
// A request reads no disk with Forest.mu held: it takes where the bytes of a file are. A page
// that is not in memory is a tree.Unread error, and a cas.Absent one if it is on another machine.
// The request begins again when the page is here (tree.Again, cas.Await).
package live
