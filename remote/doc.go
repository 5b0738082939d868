// Package remote moves snapshots between a store and a remote: a directory, a bucket or a
// registry that other machines reach. Package backend makes the requests, package object
// defines the format of objects and refs, package cache stores on disk what was read.
//
// Imported by: remote/handoff, remote/known, service.
//
// # The life of a push
//
// In this package an object is a value on the remote, of up to 32 MiB, with many records. A
// record is an object of package cas: file data, or a page of a tree.
//
// A push usually has a base: an older snapshot that is on the remote already. The remote has
// every record that the base's indexes name, and all records that those refer to, because a
// ref is written only after all objects that it needs. Therefore the walk over the snapshot's
// tree stops at each page that the base has: its time depends on the difference of the two
// trees, and not on their size. New records are copied into objects, in the order of the walk,
// with the bytes that they have in the local packs. The last object, the head, also has the
// tree pages and an index of the records that this push sent. Then the ref is written, if its
// name is free. Before that, other programs do not see the snapshot.
//
// The order of the walk is always the same, and objects are named by their bytes. So a push
// that was killed and is run again finds the objects that it sent before.
//
// When a base has maxIndexes indexes, a push on top of it merges them: it writes one index for
// all records, and sends the live records of small and of mostly dead objects again. That
// bounds the number of objects and of dead bytes that a snapshot needs.
//
// # Reading
//
// A Snapshot finds a record by its hash in the indexes, reads the blocks around it
// through the cache, expands it and compares it with the hash. If the hash differs, it drops
// the blocks from the cache and reads them from the remote; if the hash differs again, that is
// an error. health.go describes a read while the remote does not answer.
//
// # Collection
//
// Collections and pushes run at the same time, without a lock. An object that no ref names goes through three stages.
// A collection marks it as seen. A collection at least a day later marks it as condemned, and one at least another
// day later removes it: see gc.go. A push does not use condemned objects.
package remote
