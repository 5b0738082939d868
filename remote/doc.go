// Package remote moves snapshots between a store and a place that other machines
// reach. Package backend talks to the place, package object is the format there,
// package cache keeps what was read.
//
// # The life of a push
//
// A push knows a base: a snapshot that is on the remote already and that the one to
// be pushed came from. Whatever the base's indexes name is there, and so is all
// that hangs below it, because a ref is written only when everything it leads to
// is. The walk over the snapshot's tree therefore stops at each page that the base
// has, and costs what differs. What it meets is copied as it lies in the local
// packs into objects of 32 MiB, in the order of the walk; the last object also
// takes the tree pages and an index of what this push sent. Then the ref is
// written, if its name is free. Until that moment no program sees anything of it.
//
// The walk has one order and objects are named by their bytes, so a push that was
// killed finds its own objects there when it is run again.
//
// After maxIndexes pushes on top of each other the next one writes one index for
// all, and sends again what is alive in objects that are small or mostly dead.
// That bounds how many objects and how many dead bytes a snapshot drags along.
//
// # Reading
//
// A Snapshot finds a record by its hash in the indexes, reads the blocks around it
// through the cache, expands it and compares it with the hash. What does not fit is
// dropped from the cache and read once more, then it is an error. health.go has what a
// read does while the remote does not answer.
//
// # Collection
//
// No lock keeps a collection and a push apart. An object that no ref names is first
// noted, a day later condemned, a day after that removed, if it is still not named:
// see gc.go. A push takes a condemned object for absent.
package remote
