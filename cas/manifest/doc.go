// Package manifest keeps the metadata of a store: small values under keys. All of it is in memory,
// most of it compressed.
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
// The body of the first record is several frames: one with the number of entries, one for each block
// of entries, sorted by key, and a skippable frame with the directory of the blocks. A decoder that reads all
// frames in a row finds a body as above, so versions without blocks read it. A first record without a
// directory, which such a version wrote, is expanded when it is opened, and the next commit rewrites the log.
// The skippable frame has the magic number 0x184D2A5A and contains unsigned varints:
// the number of blocks, and for each block the bytes of its frame, its entries, the bytes of their keys and
// values, and its first key, after the length of the key. Then follow the bytes of these varints and keys
// as 4 bytes, and "amDX".
//
// The first record has all entries at the time when the log was rewritten, and the sequence
// number of the last commit before the rewrite. Commits follow, each with the next sequence number.
package manifest
