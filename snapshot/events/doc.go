// Package events keeps the event log of a store: changes of paths, snapshots and forks, with
// their times and processes. `.snapshots/log` and `amberfs log` show it.
//
// Imported by: all of cmd, all of fusefs, all of service, snapshot.
//
// # Events
//
// An event is one line of JSON (see Event). Every workspace has its own log and its own sequence numbers, which
// begin at 1 and are never used twice. The log is not part of the state of the workspace: a restore adds events
// and removes none.
//
// # Coalescing
//
// Record puts an event into a map and returns. Consecutive changes of a node by one process are one event: writes
// to a new file belong to its creation, and a thousand writes are one modification. An event stays open until the
// node was not changed for Options.QuietTime (200 ms), at most for five times QuietTime. Then a background goroutine
// writes all due events, in the order in which they began. A process that continues to write to the node makes
// further events at growing intervals of up to a minute, and a last one when it stops.
//
// A capture closes all open events of its workspace and returns the numbers and counts of
// the events since the capture before.
//
// # Cost
//
// A change waits only for Record. Record takes half a microsecond and one allocation if the change belongs to an
// open event, and about two microseconds for a new event. Once in 20 ms for each process, it also reads the
// process's name from /proc (BenchmarkRecord).
//
// # Events that can be lost
//
// Events are written without fsync. If the daemon is killed, open events are lost: the events of the last 200 ms
// or, for a node that is written to continuously, of the last second. Close and Flush write all events.
//
// # Files
//
//	STORE/events/<workspace>/<first>.jsonl
//
// The number of the first event in a file is hexadecimal, with 16 digits. A file is complete at
// Options.SegmentSize. When the files of all workspaces together exceed Options.LimitBytes, the tenant with the
// largest files loses the first file of its largest log (Options.TenantOf). Opening removes an incomplete last line
// after a crash.
//
// # Serving the log as a file
//
// A Reader presents the log as one file of growing size. A line never changes its offset, so `tail -f` continues
// when old files are removed: their bytes are then read as empty lines. Reader.RemovedBytes returns the number of
// these bytes.
//
// # Locking
//
//	Log.writer     held while files are written or removed
//	  Log.mu       pending events, and the lists of files
//	processNames.mu the cache of process names; no other lock is taken while it is held
//
// Options.Resolve and TenantOf are called with Log.writer held and Log.mu not held. They may take the locks of the
// forest. With these locks held, a caller may call RecordCapture and LastSeq, but not Record, Flush, Read, Follow
// and Close.
package events
