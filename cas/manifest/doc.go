// Package manifest keeps the metadata of a store: small values under names, read
// whole into memory when it is opened.
//
// On disk it is what Pebble and LevelDB call a manifest: a log of checksummed
// records. Each Commit appends one record, which is there wholly or not at all.
// Once the log has doubled since it was written, it is written anew with what is
// in force, into a temporary file that then takes its name.
//
// # Two copies
//
// The log is kept twice, as the files manifest and manifest.copy. A commit writes
// to both, then syncs both, so each has all that was ever acknowledged. Open reads each
// copy up to the first record that is damaged, takes the copy that has more commits, and
// makes the other one anew if it is missing, damaged or behind. [Manifest.Mended] returns
// what was damaged there.
//
// What a kill or a power cut leaves of the last record, a torn end, is cut off:
// its commit was never acknowledged. Anything else that is no record is damage. If the
// copy that has more is damaged, too, what was committed behind the damage is lost: Open
// sets the two files aside in the folder quarantine, and [Manifest.Lost] returns it until
// Forgive.
//
// # What is on disk
//
// A record begins at a multiple of 8 bytes. Numbers are little-endian.
//
//	offset  bytes
//	     0      4  "amMF"
//	     4      2  version: 2
//	     6      1  kind: 1 base, 2 commit
//	     7      1  1: the body is a zstd frame
//	     8      8  generation: a random number, the same in all records of a log
//	    16      8  sequence number
//	    24      8  offset of the record in the file
//	    32      4  length of the body
//	    36      4  in a base, how many records of it follow
//	    40      4  CRC-32C of the body and its padding
//	    44      4  CRC-32C of the 44 bytes before
//	    48         the body, then zeros up to a multiple of 8
//
// Generation and offset keep a value that holds the bytes of a manifest from being
// taken for records when a reader looks whether any follow a damage.
//
// A body is a number of entries, then the entries: one byte, 0 = set or 1 = delete;
// the length of the key and the key; the length of the value and the value. These
// numbers are unsigned varints.
//
// A log begins with its base, what was in force when it was written, in one or
// more records with the sequence number of the last commit then. Commits follow,
// each with the next number.
package manifest
