// Package journal is an append-only, segmented log on disk.
//
// Everything that changes in a store is appended here before it is acknowledged:
// operations, and the bytes of writes. To the journal a record is a type and a payload.
//
// # Positions
//
// A position is a byte count from the beginning of the log. It only grows, and is valid
// for as long as the segment that has it. Append returns the position of the data that
// it wrote, and ReadAt reads the data there, so that the extents of files can point into
// the log. End is the position after the last record. A checkpoint remembers it, and
// Replay starts from it.
//
// # Segments
//
// The log is kept in files of about Options.SegmentSize bytes. A segment is
// preallocated when it is opened, so that a full disk is errs.NoSpace from the Append that
// needed the segment, and from no later write. Such an Append changes nothing, and the
// next one may succeed. DropBefore removes the segments at the front.
//
// # The life of a record
//
// Append writes header and payload at the end of the current segment. The record then
// survives the death of the process. Sync makes it survive a power cut: the first caller
// runs fdatasync for everything appended so far, and callers that arrive meanwhile share
// the next run. After a failed fdatasync nothing is known about what is on disk, so the
// journal only reads until it is opened again.
//
// # What survives a power cut
//
// Always a prefix of what was appended, and at least what Sync covered. Other writes
// reach the disk in any order. Open cuts the log at the first gap and erases what is
// behind it.
//
// A gap may also be damage: a record that was durable once and cannot be read any more.
// Every record has the position up to which the log was durable when it was written. A
// gap before such a position is damage, which Open and Replay return as *DamageError.
// With Options.Salvage they skip it and continue with the next good record.
//
// Checksums of headers include a random number of the segment, the position and the
// sequence number of the record. File data that looks like a record is therefore never
// taken for one.
//
// # Locking
//
//	Journal.drop       held while segments are removed, by Replay and by Verify
//	  Journal.mu       appends, opening of segments, the list of them
//	    Journal.sync.mu  the caller that runs fdatasync, those that wait
//	Journal.damage     alone
//
// ReadAt takes no lock: the list of segments is replaced and never changed, and a
// segment that is dropped meanwhile is ErrPosition.
package journal
