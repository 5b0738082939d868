// Package object defines the format of pushed snapshots on a remote: refs, objects and their
// indexes. FORMAT.md describes the bytes.
//
// Imported by: remote, remote/known.
//
// # Trust
//
// The remote is not trusted. If it returns other bytes than were pushed, or none, the reader gets
// an error. Readers compare every record with the BLAKE3 hash in the record that refers to it; the
// first hash is the snapshot's id. Decoding in this package is bounded by the number of bytes
// that were read: an impossible length or number is refused before memory is allocated for it.
package object
