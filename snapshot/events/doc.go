// Package events keeps the event log of a store: what happened to which path,
// when, and which process did it. It is what `.snapshots/log` and `amberfs log`
// show.
//
// # What is an event
//
// One line of JSON (see Event). Every workspace has its own log and its own sequence
// numbers, from 1, never used twice. The log is not part of the state of the workspace:
// a restore adds to it and removes nothing.
//
// # Coalescing
//
// Record puts an event into a map and returns. What one process continues to do to one
// node is one event: writes after the creation belong to the creation, and a thousand
// writes are one modification. An event stays open until the node was left alone for
// Options.Quiet (200 ms), for five times that at most. Then a background goroutine writes
// it, with all others that are due, in the order in which they began. A process that
// keeps writing to the same node makes another event at growing intervals of up to a
// minute, and one when it stops.
//
// A capture ends all open events of its workspace and returns the numbers and counts of
// the events since the capture before.
//
// # What it costs
//
// A change waits for Record alone: half a microsecond and one allocation when it belongs
// to an open event, about two when it is a new one, and once in 20 ms for each process
// the reading of its name from /proc (BenchmarkRecord).
//
// # What can be lost
//
// Events are written without fsync. When the daemon is killed, those that were still
// open are lost: the last 200 ms, or the last second of a node that was being written to
// all the time. Close and Flush write everything.
//
// # Files
//
//	STORE/events/<workspace>/<first>.jsonl
//
// The number of the first event in a file is hexadecimal, with 16 digits. A file is
// finished at Options.SegmentSize. The log is a ring: when all files of the store exceed
// Options.Limit, the tenant that has most loses the first file of its largest log
// (Options.Share). Opening removes a line that a crash left unfinished.
//
// # Serving the log as a file
//
// A Reader is the log as one file of growing size. What lies at an offset of a
// Reader never changes, so `tail -f` continues when old files are removed: their
// bytes then read as empty lines, and Reader.Removed reports that a new Reader would
// begin later.
//
// # Locking
//
//	Log.writer     writing, removing files
//	  Log.mu       what is open, and the lists of files
//	commands.mu    which process a thread belongs to; alone
//
// Options.Resolve and Share are called with Log.writer held and Log.mu free. They may take
// the locks of the tree, and Captured and LastSeq may be called under them; Record, Flush,
// Read, Follow and Close may not.
package events
