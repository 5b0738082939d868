// Package manifest keeps the metadata of a store: small values under keys. Open reads all
// of it into memory.
//
// Imported by: cas.
//
// The manifest is a log of checksummed records on disk, as in Pebble and LevelDB. Each Commit appends one
// record. After a power cut the record is complete or ignored.
// When the size of the log has doubled, the log is rewritten: a new file, whose first record
// contains all current entries, replaces the log.
//
// # Two copies
//
// The log is stored twice, as the files manifest and manifest.copy. A commit writes
// to both, then syncs both, so each copy has every acknowledged commit. Open takes each
// commit from a copy in which it is intact, and rewrites a copy that is missing, damaged
// or shorter. If neither copy begins with an intact record, Open fails. It also fails if a commit
// is intact in neither copy and a later commit is intact. With Options.Salvage it then ignores the
// later commits, and moves the files to the folder quarantine.
//
// # Format
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
// A decompressed body is the number of entries, then the entries: one byte, 0 = set or
// 1 = delete; the length of the key and the key; the length of the value and the value.
// These numbers and lengths are unsigned varints.
//
// The first record has all entries at the time when the log was rewritten, and the sequence
// number of the last commit before the rewrite. Commits follow, each with the next sequence number.
package manifest
