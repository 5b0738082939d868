// Package journal is an append-only, segmented log on disk.
//
// Everything that changes in a store is appended here before it is
// acknowledged: operations, and the bytes that write(2) brought. The journal
// knows nothing of their meaning. To it a record is a type and a payload.
//
// # Positions
//
// A position is a byte count from the beginning of the log. It only grows, and
// stays valid for as long as the segment that holds it: Append returns the
// position of the data it wrote, and ReadAt reads it back from there, so that a
// file's extents can point into the log. End is the position after the last
// record; a checkpoint remembers it, and Replay starts from it.
//
// # Segments
//
// The log lies in files of about Options.SegmentSize bytes. A segment is
// preallocated when it is opened, so that a full disk shows up there, as
// ErrNoSpace from the Append that needed it, and at no later write. Such an
// Append changes nothing and the next one may succeed. DropBefore gives up the
// segments at the front.
//
// # The life of a record
//
// Append takes the journal's lock, writes header and payload at the end of the
// current segment, and returns. The record then survives the
// death of the process. Sync makes it survive a power cut: the first caller
// runs fdatasync for everything appended so far, on each segment that needs
// it and on the directory, and callers that arrive meanwhile share the next
// run. After a failed fdatasync nothing is known about what is on disk, so the
// journal refuses everything except reads until it is opened again.
//
// # What survives a power cut
//
// Always a prefix of what was appended, and at least what Sync covered. Writes
// that no Sync covered reach the disk in any order, so behind the first record
// that did not there may be others that did. They must not count: Open cuts the
// log at the first gap and erases what is behind it.
//
// A gap may also be damage: a record that was safe once and can no longer be
// read. The two are told apart by a field of every record that says up to which
// position the log was durable when the record was written. A gap before such a
// position is damage. Open or Replay report it as *DamageError instead of cutting.
// With Options.Salvage they skip what cannot be read and go on with the next good
// record.
//
// Checksums of headers include a random number of the segment, its position and
// the sequence number of the record. File data that looks like a record is therefore
// never taken for one.
//
// # Locking
//
//	Journal.drop       who gives up segments
//	  Journal.mu       appends, opening of segments, the list of them
//	    Journal.sync.mu  who runs fdatasync, who waits
//	Journal.damage     alone
//
// Readers take no lock: the list of segments is replaced and never changed, and
// a segment is open for as long as someone holds a reference.
package journal
