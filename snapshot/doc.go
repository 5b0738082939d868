// Package snapshot is the versioned workspace: a store of file trees whose
// every state can be captured, kept and brought back.
//
// # Concepts
//
// A Store is a directory that one process owns at a time. It holds
// workspaces: `main`, and one more for each fork. A workspace is a writable
// view of the forest (package live); a snapshot is a frozen tree.State with a
// name, which is a read-only view.
//
// # The life of a capture
//
// Capture takes the lock of the forest, appends one record to the journal,
// counts the epoch up and keeps a pointer to the state: that is all, whatever
// the size of the tree. The snapshot is visible, restorable and kept from then
// on. In the background the sealer turns what changed into chunks and tree
// objects, and the hash of the root becomes the snapshot's id.
//
// # The life of a restore
//
// Under the lock, the present state is captured, compared with the
// snapshot's, and exactly what differs is put in place (live.Graft): one
// record in the journal says which snapshot, and recovery comes to the same
// result. When the lock is released, the kernel is told what changed.
//
// # Recovery
//
// A checkpoint seals the workspaces as they are at one position of the
// journal and commits them, with the catalogue, as meta data of the chunk
// store. Opening a store loads the last checkpoint and replays the journal
// from its position on. The journal before it is dropped as far as nothing
// refers to its bytes.
//
// # Locks
//
//	Store.room.one        one writer at a time makes room on a nearly full disk
//	  Store.ckpt.mu       one checkpoint or gc at a time
//	    live.Forest.mu    the catalogue and every view
//
// A gc has the chunk store's turn to collect before it takes ckpt.mu; who holds that
// neither collects nor verifies.
//
// Store.puts counts those who put objects that nothing refers to yet: gc waits for
// them before anybody has to wait for it but another gc, for an import waits for
// whoever sends it the files. A writer waits for ckpt.mu for some seconds only. A gc that nobody asked for does
// not begin during an import.
//
// No lock is held while the kernel is told of changes.
package snapshot
