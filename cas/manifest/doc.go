// Package manifest keeps the metadata of a store: small values under names, read
// whole into memory when it is opened.
//
// On disk it is what Pebble and LevelDB call a manifest: a log of checksummed
// records. Each Commit appends one record, which is there wholly or not at all.
// Once the log has doubled, a new one with one record, what is in force, takes its
// name.
//
// # Two copies
//
// The log is kept twice, as the files manifest and manifest.copy. A commit writes
// to both, then syncs both, so each has all that was ever acknowledged. Open takes each
// commit from the copy in which it is sound, and replaces a copy that is missing, damaged
// or shorter. If neither begins with a sound record, Open fails. It also fails if a commit is
// sound in neither while later ones are; a salvage leaves these out and keeps the files.
//
// # What is on disk
//
// Numbers are little-endian. Records follow each other without gaps.
//
//	offset  bytes
//	     0      4  "amMF"
//	     4      2  version: 3
//	     6      2  0
//	     8      8  sequence number
//	    16      4  length of the body
//	    20      4  CRC-32C of the body
//	    24      4  CRC-32C of the 24 bytes before
//	    28         the body, a zstd frame
//
// Expanded, a body is a number of entries, then the entries: one byte, 0 = set or
// 1 = delete; the length of the key and the key; the length of the value and the value.
// These numbers are unsigned varints.
//
// The first record has what was in force when the log was written, and the sequence
// number of the last commit then. Commits follow, each with the next number.
package manifest
