// Package engine does the background work of a store: it seals states, makes checkpoints and
// room on the disk, and gives back the space of what nothing refers to.
//
//   - A [Sealer] stores states in the chunk store. It has a queue of the snapshots without an
//     id, and seals at once what a caller waits for.
//   - A [Pacer] has it give way to writers.
//   - A [Checkpointer] makes a [Checkpoint]: it freezes the store, seals it, commits it with the
//     catalogue, and drops the journal before it. A [Loading] reads it when the store is opened.
//   - A [Collector] decides when a gc pays, and runs it.
//   - A [Memory] bounds what unsealed changes take in memory, also during a recovery, and has them
//     sealed early.
//   - A [Room] admits writes, and asks for a checkpoint when the journal takes too much space.
//
// [Parts.Roots] lists all that a gc keeps.
//
// # What keeps bytes of the journal
//
// A checkpoint drops the journal before its position, but for what one of these refers to:
//
//  1. the present states of workspaces, as far as they changed since the checkpoint
//  2. snapshots that have no id yet
//  3. states that are being read ([Pins])
//  4. unlinked files that the kernel still references, until their contents are sealed
//  5. steps of an edit, and contents of files linked again, of records after the position
//  6. files that cannot be sealed, if what they have in the journal cannot be stored either
//
// # What a checkpoint waits for
//
// It waits for the turn of each workspace that changed, and for the seals of all snapshots
// that were taken before it. It does not wait for writers, and a gc that comes meanwhile ends
// it: the next checkpoint goes on with what was sealed.
//
// # Why a gc removes nothing that is needed
//
// An object is needed if a state or a set of actors refers to it that somebody reads, can come
// to, or that recovery would come to. A gc has these steps:
//
//  1. It begins to record (cas.Store.Record): what a Put or Has finds or adds from here on stays.
//  2. It waits for the callers that put objects before ([Collector.Puts]). When they are done,
//     a root refers to what they put, or nothing ever will.
//  3. It makes a checkpoint. If that takes too long, or the disk is full, there is none.
//  4. It takes the [Roots] in one step. No checkpoint is under way then, so nothing is frozen or
//     half stored that is not among them.
//  5. It marks what is below the roots, and below what the last checkpoint names. Then it sweeps.
//     Writers, captures, seals, edits, pulls and checkpoints go on.
//
// An object that is needed during step 5 or later is kept, because one of these holds:
//
//   - It is below a root. That it may be removed meanwhile changes nothing for this gc.
//   - It was put, or found by Put or Has, after step 1.
//   - It is below an object that was put after step 1. The caller that put that one had the
//     reference from a root, or from what was put after step 1. A pull has it from elsewhere,
//     and therefore asks for every object of the tree (remote.Snapshot.Pull).
//   - A state that was made after step 4 has it: a change, a fork, an edit, or what a checkpoint
//     freezes. Each page of such a state is one of an older state, a page in memory that will
//     be put, or one that was put after step 1. So one of the cases before holds, by induction.
//
// Contents in memory may yet take chunks from older versions. Marking such a content names those
// too (content.Content.EachObject).
//
// Recovery begins at the last checkpoint. If that was made before step 4, or during step 5 before
// it was read, its records are among the roots. A later one names states frozen after step 4.
// Records of the journal behind it name the states of edits and pulls, which are roots until a
// checkpoint has them (catalogue.Catalogue.Roots).
//
// A kill in any of the steps leaves an object in the index and in its pack, or neither, or free
// space to be found by the next gc (cas/sweep.go). Objects are removed in step 5 alone. An error
// there, or an object that is needed and missing, ends the gc before it removes any.
//
// # Failures
//
// A failure of one thing does nothing to the others:
//
//   - A file that cannot be sealed is left out of its state. The catalogue has a description of
//     its contents, and what it had in the journal is stored as it is.
//   - A state that cannot be sealed at all keeps the journal, while all other states are sealed.
//     The next checkpoint tries again. The health of the store has the error.
//   - A snapshot whose seal failed is tried again after some seconds. Those of other workspaces,
//     and the next ones of its own, do not wait for it.
//   - A gc without a checkpoint marks what the last checkpoint refers to as well. A gc that
//     fails leaves everything as it is, and is tried again after a minute.
//   - A loop that panics begins again after some seconds (package loops).
package engine
