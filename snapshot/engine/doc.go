// Package engine does the background work of a store: it seals states, makes checkpoints and
// room on the disk, and gives back the space of what nothing refers to.
//
//   - A [Sealer] stores states in the chunk store. It has a queue of the snapshots without an
//     id, and seals at once what a caller waits for.
//   - A [Pacer] has it give way to writers.
//   - A [Checkpointer] makes a [Checkpoint]: it freezes the store, seals it, commits it with the
//     catalogue, and drops the journal before it. A [Loading] reads it when the store is opened.
//   - A [Collector] decides when a gc pays, and runs it.
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
