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
// objects, and the hash of the root becomes the snapshot's id. It waits for the
// writers to rest and leaves them a processor, unless somebody waits for the id or the
// journal takes much of the disk: what they remove until then is not sealed.
//
// # The life of a restore
//
//  1. Changes of the workspace wait (live.Forest.Edit); others go on.
//  2. tree.Diff compares the workspace with the snapshot: a list of steps.
//  3. The steps are made on a copy of the state and written to the journal
//     (live.Edit.Graft). Very many are not written; the result is sealed instead.
//  4. Under the lock, one record says where the steps are, or which state was sealed.
//     The state before is captured, and the copy takes its place.
//  5. When the lock is released, the kernel is told what changed.
//
// Merges and imports have the same record and the same last steps. Recovery makes the
// steps of the record again, or loads its state.
//
// # Recovery
//
// A checkpoint seals the workspaces as they are at one position of the
// journal and commits them, with the catalogue, as metadata of the chunk
// store. Opening a store loads the last checkpoint and replays the journal
// from its position on. The journal before it is dropped as far as nothing
// refers to its bytes.
//
// A damaged store does not open. A salvage (Repair, or Check to look at what a
// repair would do) takes of the journal what lies before the first damage, and
// for a workspace whose state cannot be read the newest of its snapshots that
// can. Everything it leaves out is named.
//
// # Locks
//
//	cas.Record                one gc at a time; who holds it neither collects nor verifies
//	room.one                  one writer at a time makes room on a nearly full disk
//	  ckpt.mu                 one checkpoint, or gc that marks, at a time
//	    Workspace.sealing     one seal at a time of a fork of main
//	      seal.main, .forks   how many of main and of all forks
//	        live.Forest.mu    the catalogue and every view
//	          seal.mu         the queue of the sealer
//	usage.mu                  one counts what a fork has of its own
//	  live.Forest.mu
//	gc.held.mu, gc.mu, gc.puts.mu, figures.mu
//	                          never held while another is taken
//
// Each is taken only under those above it, and Forest.mu under usage.mu or under the
// others. Below all of them are those of live, content, events and cas.
//
// A gc takes cas.Record before ckpt.mu. Before that it waits for those who put
// objects that nothing refers to yet (gc.puts), so that nobody has to wait for a
// gc that waits: an import takes as long as whoever sends it the files. A gc that
// nobody asked for does not begin during an import. A writer waits for ckpt.mu
// for some seconds only.
//
// No lock is held while the kernel is told of changes.
package snapshot
