// Package object says what a pushed snapshot looks like on a remote. FORMAT.md has
// the bytes.
//
// An object is a run of records: chunks of files and tree pages as they lie in the
// packs of the store that pushed them, compressed but with no headers of their
// own, because an object is written once and as a whole. The last object of a push
// also holds an index of all records that the push brought, sorted by hash. A ref
// is a small JSON document that names the snapshot, the objects it needs and the
// indexes that say what lies where in them; the indexes of earlier pushes go on
// counting, so a push brings an index of what is new only.
//
// # Who is trusted
//
// None. A remote can withhold what it was given, or give something else; both
// are errors. Every record is compared with the BLAKE3 by which its parent names
// it, up to the snapshot's id. Decoding here is bounded by the bytes that are
// there: a length or a number that cannot be right is refused before anything is
// allocated for it.
package object
