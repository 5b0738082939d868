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
// A request checks under the lock what it needs, and reads what it will read
// (may.go), appends one record to the journal, applies that record to the state and
// returns. Once the record is there nothing may fail any more: if something does,
// the state is uncertain, and nothing can be changed until the store is opened
// again. Recovery applies the
// same records with the same functions (see replay.go), so there is one way in
// which a change comes about. The bytes of a write lie in the record itself,
// or, when they are many, in a record before it that is written without the
// lock; the content of the file then refers to that place in the journal.
//
// An inode that lost its last name while the kernel still holds it is an
// orphan: it lives outside of the state, is part of no capture, and goes when
// the kernel forgets it. Its changes are not journaled, only its bytes are.
//
// # Locks
//
//	Forest.mu            every view, the epoch, the counters; the catalogue of package snapshot
//	  journal            inside, for an append
//	  tree.Source        inside, for cached objects
//	Forest.blobs.mu      positions of bytes written but not yet referred to; never held with another
//
// Forest.mu may be held while a page of the tree is read from a pack, which
// happens once for a page that is not in memory. It is never held while data
// is synced, hashed, compressed or sent to the kernel.
package live
