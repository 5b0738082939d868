// Package catalogue implements the list of the workspaces and snapshots of a store, and the journal
// records that change this list.
//
// Imported by: all of cmd, service, snapshot, snapshot/actors/blame, snapshot/engine, snapshot/repair.
//
// A change has three steps. A function of this package (NewCapture, NewDelete ...) checks the
// change and returns its [Record]. The store appends the record to the journal. Then
// [Catalogue.Apply] makes the change. Recovery decodes the record and calls Apply, too. Apply
// returns the tasks that remain, such as sealing, as [Effects], because this package has no lock, no
// journal, and no access to the files of workspaces. Other packages change a catalogue only with records, and with methods for what
// no record has: [Catalogue.SetID], what a checkpoint stores, and what a salvage leaves out.
//
// Opening a store reads the records of all snapshots, but keeps only a few fields of most of them. A snapshot is
// loaded when it is used: see [SnapshotSet].
package catalogue
