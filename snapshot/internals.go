// # The parts
//
// Each change of the list of workspaces and snapshots is a record. Package catalogue checks the
// request and makes the record, this package writes it to the journal (applier.commit), and
// catalogue applies it. The effects of a record on background work come back to this package
// (applier.applyEffects).
//
// Package engine has the background work: seals, gc, free disk space, the limits of forks, and checkpoints, which
// commit the catalogue and delete the old part of the journal. It also reads the last checkpoint. Package policy
// takes and removes snapshots by the policies. Both use the store through narrow interfaces.
//
// These packages do not depend on the store: catalogue (workspaces, snapshots, their records),
// info (the description of snapshots for users), storedir (the directory), repair (verifies all
// objects, and repairs packs), graft and threeway (the steps of a restore, a merge and an undo, and
// how they change a state), policy and naming.
//
// The journeys of a write, a snapshot, a restore and a merge are drawn in docs/dev/architecture.md.
//
// # Recovery
//
// A checkpoint seals the workspaces as they are at one position of the
// journal and commits them, with the catalogue, as metadata of the chunk
// store. Opening a store loads the last checkpoint and replays the journal
// from its position on. Segments of the journal before that position are deleted
// unless the bytes of unsealed files are in them.
//
// A damaged store does not open. A salvage (Repair, or Check to see what a
// repair would do) uses the journal up to the first damaged record. If the state of a workspace
// cannot be read, the salvage uses the newest snapshot of the workspace that can be read. The
// report lists everything that was lost.
//
// # Locks
//
//	cas.Collection            one gc at a time; it must not call BeginCollection or Verify
//	engine.Room               one writer at a time frees space on a nearly full disk
//	  Checkpointer.mu         one checkpoint, or gc that reads its roots, at a time
//	    Workspace.sealTurn    one seal at a time of main, or of a fork of main with its own forks
//	      Sealer.forkSlots    the number of seals of all forks
//	        live.Forest.mu    the catalogue and every view
//	          Sealer.mu       the queue of the sealer
//	engine.Meter              one goroutine counts the unshared bytes of a fork
//	  live.Forest.mu
//	Pins.mu, gc.Puts.mu, metrics
//	                          no other lock is taken while one of these is held
//
// A lock is taken only while no lock below it in its group is held. The locks of packages live,
// content, events and cas are below all of these.
//
// A gc begins its cas.Collection before it takes Checkpointer.mu. Between the two it waits for callers that put
// objects without a reference (gc.Puts). So no request waits for a gc that itself waits for an import: an import is
// as slow as the sender of its files. An automatic gc does not begin during an import. A writer waits for
// Checkpointer.mu for some seconds only.
//
// A seal that has done much work releases Workspace.sealTurn, Sealer.forkSlots and gc.Puts if other goroutines wait
// for one of them, and then waits for its next turn. gc marks the objects that the seal has put, because the states
// in memory reference them. A running checkpoint ends early if a gc waits for Checkpointer.mu. The next checkpoint
// does not repeat its seals.
//
// No lock is held while the kernel is notified of changes.
package snapshot
