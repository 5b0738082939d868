// Package object says what a pushed snapshot looks like on a remote. FORMAT.md has
// the bytes.
//
// # Who is trusted
//
// None. A remote can withhold what it was given, or give something else; both
// are errors. Every record is compared with the BLAKE3 by which its parent names
// it, up to the snapshot's id. Decoding here is bounded by the bytes that are
// there: a length or a number that cannot be right is refused before anything is
// allocated for it.
package object
