// Package journal is an append-only, segmented log on disk.
//
// Imported by: snapshot, snapshot/engine, snapshot/live, snapshot/repair.
//
// Every change of a store, also the bytes of writes, is appended to the journal before it is
// acknowledged. For the journal a record is a type and a payload.
//
// # Positions
//
// A position is a number of bytes from the beginning of the log. Positions of later records
// are higher, and a position is valid until its segment is dropped. Append returns the
// position of the data that it wrote, and ReadAt reads the data at a position, so that the extents of
// files can refer to the log. End is the position after the last record. A checkpoint
// contains the End of its time, and Replay starts at this position.
//
// # Segments
//
// The log is kept in files of about Options.SegmentSize bytes. A segment is
// preallocated when it is created, so that on a full disk the Append that needs a new segment
// fails with errs.NoSpace, while writes into a segment do not fail for lack of space. An Append that
// fails has no effect, and the next Append may succeed. DropBefore removes the oldest segments.
//
// # The life of a record
//
// Append writes header and payload at the end of the current segment. The record then
// survives the death of the process. Sync makes it survive a power cut: the first caller
// runs fdatasync for all records so far, and callers that arrive during it share
// the next run. After a failed fdatasync it is unknown which bytes are on disk, so the
// journal is read-only until it is opened again.
//
// # What survives a power cut
//
// A prefix of the records survives, and at least the records that Sync covered. Other
// writes reach the disk in any order. Open ends the log at the first gap and erases the
// records after it.
//
// A gap may also be damage: a record that was durable and cannot be read any more. To distinguish the
// two, every record states the position up to which the log was durable when the record was written. A
// gap before such a position is damage, which Open and Replay return as *DamageError.
// With Options.Salvage they skip the damage and continue with the next valid record.
//
// Checksums of headers include a random number of the segment, the position and the
// sequence number of the record. File data that looks like a record is therefore never
// taken for one.
//
// # Locking
//
//	Journal.dropMu       held by Replay and Verify, and while segments are removed
//	  Journal.mu         guards appends and the list of segments
//	    Journal.sync.mu  guards which caller runs fdatasync, and which wait
//	damageList.found     no other lock is taken under it
//
// ReadAt takes no lock: writers replace the list of segments as a whole. If a segment is dropped
// while ReadAt reads it, ReadAt fails with ErrPosition.
package journal
