// Package snapshot is the versioned workspace: a store of file trees whose
// every state can be captured, kept and restored.
//
// # Types and operations
//
// A [Store] is a directory that one process owns at a time. [Open] makes or opens it,
// [Store.Close] closes it, [Repair] is for damaged ones. It has workspaces:
// `main`, and one more for each fork. [Store.GC] gives back the space of what nothing
// refers to, [Store.Verify] reads everything and names what is damaged,
// [Store.Checkpoint] shortens the journal, [Store.Hold] keeps a state that is being read,
// and [Store.Importing] guards objects that nothing refers to yet.
//
// A [Workspace] is a writable file tree. Files are read and changed through the
// [live.Forest] of the store; a workspace is about the whole tree:
//
//   - [Workspace.Capture] makes a snapshot of the present state, in the same time
//     whatever its size. [Workspace.Find] and [Workspace.List] find snapshots.
//   - [Workspace.Restore] makes the workspace, or some paths, equal to a snapshot. The
//     state before is captured, which makes it an undo.
//   - [Workspace.Graft] merges a tree from outside into the workspace.
//   - [Workspace.Held] returns the present tree or that of a snapshot, to be read and
//     compared (package tree), and keeps what it refers to.
//   - [Workspace.Policy] and [Workspace.PatchPolicy] say what is captured, kept and allowed.
//   - [Workspace.Status] says how the workspace and the store are, [Quota.Usage] what
//     a fork has of its own.
//
// A snapshot is a frozen tree.State with a name, which is a read-only view. [Info]
// describes it. [Snapshots] are those of a workspace:
//
//   - [Snapshots.DeleteAll], [Snapshots.Rename] and [Snapshots.Amend] change what is in the
//     list, never a tree.
//   - [Snapshots.Compact] makes one snapshot of several.
//   - [Snapshots.Intervals] and [Snapshots.Open] return which actors changed what between snapshots,
//     and [Snapshots.UndoBy] undoes what one actor changed.
//   - [Snapshots.WaitSealed] waits until a snapshot has its id, and is on disk.
//   - [Snapshots.DiskUsage] counts what deleting snapshots would give back.
//
// A fork is a workspace that began as a snapshot or as the present state of another one.
// [Forks] are those of a workspace:
//
//   - [Forks.New] makes one, [Forks.Claim] finds or makes the one of a label.
//   - [Forks.Merge] merges what changed in a fork into the workspace.
//   - [Forks.End] removes one and keeps its last state as a snapshot, [Forks.Discard]
//     keeps nothing.
//
// [Remotes] sends snapshots to other stores and takes theirs: [Remotes.Push] keeps one
// while it is sent, [Remotes.Pulled] makes one of objects that came.
//
// # The parts
//
// A change of workspaces and snapshots is a record of package catalogue: it is checked and made
// there, journaled here (Store.commit), and applied there, with effects that the store passes on
// (trees.follow). meter holds forks to their limit.
//
// Package engine does what goes on in the background: seals, checkpoints, which commit the
// catalogue and drop the journal, gc, and room on the disk. It also reads the last checkpoint. Package policy captures and removes by the policies. They ask the store by
// narrow interfaces.
//
// Packages that know no store: catalogue (workspaces, snapshots, their records), info (what users
// see), storedir (the directory), usage (what forks and snapshots
// take), repair (reads everything, and repairs packs), graft and threeway (what a restore, a merge and an
// undo change, and how it is changed in a state), policy and naming.
//
// # The life of a capture
//
// Capture takes the lock of the forest, appends one record to the journal,
// counts the epoch up and keeps a pointer to the state: that is all, whatever
// the size of the tree. The snapshot is visible, restorable and kept from then
// on. In the background the sealer turns what changed into chunks and tree
// objects, and the hash of the root becomes the snapshot's id. It waits for the
// writers to rest and leaves them a processor, unless a reader waits for the id or the
// journal takes much of the disk: what they remove until then is not sealed.
//
// # The life of a restore
//
//  1. Changes of the workspace wait (live.Forest.Edit); others go on.
//  2. tree.Diff compares the workspace with the snapshot: a list of steps.
//  3. The steps are made on a copy of the state and written to the journal
//     (graft.Target, live.Edit.Graft). Very many are not written; the result is sealed instead.
//  4. Under the lock, one record says where the steps are, or which state was sealed.
//     The state before is captured, and the copy takes its place.
//  5. When the lock is released, the kernel gets notices of what changed.
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
//	cas.Record                one gc at a time; its holder neither collects nor verifies
//	engine.Room                one writer at a time makes room on a nearly full disk
//	  Checkpointer.mu         one checkpoint, or gc that takes its roots, at a time
//	    Workspace.sealing     one seal at a time of main, or of a fork of it
//	      Sealer.forks        how many of all forks
//	        live.Forest.mu    the catalogue and every view
//	          Sealer.mu       the queue of package engine
//	engine.Meter              one counts what a fork has of its own
//	  live.Forest.mu
//	Pins.mu, gc.Puts.mu, metrics
//	                          never held while another is taken
//
// Each is taken only under those above it, and Forest.mu under engine.Meter or under the
// others. Below all of them are those of live, content, events and cas.
//
// A gc takes cas.Record before Checkpointer.mu. Before that it waits for callers that put
// objects that nothing refers to yet (gc.Puts), so that no request has to wait for a
// gc that waits: an import takes as long as the sender of its files. An
// automatic gc does not begin during an import. A writer waits for
// Checkpointer.mu for some seconds only.
//
// A seal that did much work leaves Workspace.sealing, Sealer.forks and gc.Puts when others
// wait for one of them, and then waits for its next turn. Until then what it put can be
// reached from the states that gc marks. A checkpoint under way ends when a gc waits for
// Checkpointer.mu. The next one goes on with what it sealed.
//
// No lock is held while the kernel gets notices of changes.
package snapshot
