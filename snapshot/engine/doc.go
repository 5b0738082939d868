// Package engine does the background work of a store: it seals states, makes checkpoints, frees
// disk space, and removes unreferenced objects (gc).
//
// Imported by: all of cmd, snapshot.
//
//   - A [Sealer] seals states: it stores their files and directories in the chunk store. It has a
//     queue of the snapshots without an id. A state that a caller waits for is sealed at once.
//   - A [Pacer] makes the sealer yield to writers.
//   - A [Checkpointer] makes a [Checkpoint]: it freezes the workspaces, seals and commits them with
//     the catalogue, and drops the journal before it. A [Loader] reads it when the store is opened.
//   - A [Collector] decides when a gc is worth its cost, and runs it.
//   - A [Memory] limits the memory of unsealed changes, also during a recovery. It makes the
//     sealer seal them early.
//   - A [Meter] counts the unshared bytes of forks, and enforces their limits.
//   - A [Room] admits writes, and asks for a checkpoint when the journal takes too much space.
//
// [Parts.Roots] lists the states and objects that a gc keeps.
//
// # What keeps bytes of the journal
//
// A checkpoint drops the journal before its position, except bytes that one of these references:
//
//  1. the present states of workspaces that changed since the checkpoint
//  2. snapshots that have no id yet
//  3. states that are being read ([Pins])
//  4. unlinked files that the kernel still references, until their contents are sealed
//  5. records after the position: the steps of an edit, and the contents of files linked again
//  6. files that cannot be sealed, if their bytes in the journal cannot be stored either
//
// # What a checkpoint waits for
//
// It waits for the turn of each workspace that changed, and for the seals of all snapshots
// that were taken before it. It does not wait for writers. A gc that begins in that time ends
// the checkpoint; the next checkpoint does not repeat the finished seals.
//
// # Why a gc removes no object that is needed
//
// An object is needed if it is part of a state or a set of actors that is being read, that a user
// can still read, or that recovery would read. A gc has these steps:
//
//  1. It begins to record (cas.Store.BeginCollection): objects that Put adds, or Put and Has find, from
//     here on are kept.
//  2. It waits for callers that began to put objects before ([Collector.Puts]). When they are done,
//     their objects are below a root, or will never be referenced.
//  3. It makes a checkpoint. It continues without one if the disk is full or the checkpoint would
//     take too long.
//  4. It takes the [Roots] in one step. No checkpoint is running then, so each frozen or partly
//     sealed state is among the roots. Snapshots that are not in memory are read in step 5, from the
//     records that the metadata had in step 4.
//  5. It marks the objects below the roots and below the last checkpoint, except the objects of snapshots
//     that an earlier gc has marked (cas.Marker.Resume). Then it sweeps.
//     Writers, captures, seals, edits, pulls and checkpoints continue during this step.
//
// An object that is needed during step 5 or later is kept, because one of these is true:
//
//   - It is below a root. If the root is removed during the gc, this gc keeps its objects anyway.
//   - It was put, or found by Put or Has, after step 1.
//   - It is below an object that was put after step 1. The caller that put the upper object took the
//     reference from a root, or from an object that was put after step 1. A pull takes references
//     from another store, and therefore calls Has for every object of the tree
//     (remote.Snapshot.Pull).
//   - It is in a state that was made after step 4 by a change, a fork, an edit or a checkpoint. Each
//     page of such a state is a page of an older state, a page in memory that will
//     be put, or a page that was put after step 1. So one of the cases above holds, by induction.
//
// The seal of a content in memory may reuse chunks of its older versions. Marking such a content
// marks those chunks, too (content.Content.EachObject).
//
// Recovery begins at the last checkpoint. Step 5 reads the records of the checkpoint that is the last one at that
// time. It skips records of snapshots that are equal to the catalogue. The states of a later checkpoint were frozen
// after step 4. Journal records after the checkpoint name the states of edits and pulls, which are roots until a
// checkpoint contains them (catalogue.UnwrittenRecords.Roots).
//
// A kill during a gc leaves each object both in the index and in its pack, or in neither. It may
// leave free space that the next gc finds (cas/sweep.go). Objects are removed in step 5 only. If an
// object that is needed is missing, or marking fails, the gc ends before it removes any.
//
// # Failures
//
// A failure of one part does not stop the others:
//
//   - A file that cannot be sealed is left out of the sealed state. The catalogue has a description
//     of its contents, and its bytes in the journal are stored unsealed.
//   - A state that cannot be sealed at all keeps its part of the journal, while all other states
//     are sealed. The next checkpoint tries again. The health of the store contains the error.
//   - A snapshot whose seal failed is tried again after some seconds. Snapshots of other
//     workspaces, and newer snapshots of the same workspace, do not wait for it.
//   - A gc without a checkpoint marks the objects of the last checkpoint, too. A gc that
//     fails removes no objects, and is tried again after a minute.
//   - A loop that panics is started again after some seconds (package loops).
package engine
