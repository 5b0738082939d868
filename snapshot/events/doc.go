// Package events keeps the event log of a store: changes of paths, snapshots and forks, with
// their times and processes. `.snapshots/log` and `amberfs log` show it.
//
// Imported by: all of cmd, all of fusefs, all of service, snapshot.
//
// # Events
//
// One line of JSON (see Event). Every workspace has its own log and its own sequence
// numbers, from 1, never used twice. The log is not part of the state of the workspace:
// a restore adds to it and removes nothing.
//
// # Coalescing
//
// Record puts an event into a map and returns. Consecutive changes of a node by one process are
// one event: writes after the creation belong to the creation, and a thousand
// writes are one modification. An event stays open until the node was not changed for
// Options.Quiet (200 ms), at most for five times Quiet. Then a background goroutine writes
// it, with all other due events, in the order in which they began. A process that
// continues to write to the same node makes further events at growing intervals of up to a
// minute, and a last one when it stops.
//
// A capture closes all open events of its workspace and returns the numbers and counts of
// the events since the capture before.
//
// # Cost
//
// A change only waits for Record: half a microsecond and one allocation when it belongs
// to an open event, about two microseconds for a new event, and once in 20 ms for each process
// the time to read its name from /proc (BenchmarkRecord).
//
// # Events that can be lost
//
// Events are written without fsync. When the daemon is killed, open events are lost: the last
// 200 ms, or the last second of a node that is written to continuously. Close and Flush write all
// events.
//
// # Files
//
//	STORE/events/<workspace>/<first>.jsonl
//
// The number of the first event in a file is hexadecimal, with 16 digits. A file is
// complete at Options.SegmentSize. When the files of all workspaces together exceed
// Options.Limit, the tenant with the largest files loses the first file of its largest log
// (Options.Share). Opening removes an incomplete last line after a crash.
//
// # Serving the log as a file
//
// A Reader presents the log as one file of growing size. A line never changes its offset, so
// `tail -f` continues when old files are removed: their bytes are then read as empty lines.
// Reader.Removed returns the number of these bytes.
//
// # Locking
//
//	Log.writer     held while files are written or removed
//	  Log.mu       pending events, and the lists of files
//	commands.mu    the cache of process names; no other lock is taken while it is held
//
// Options.Resolve and Share are called with Log.writer held and Log.mu free. They may take
// the locks of the tree. With these locks held, a caller may call Captured and LastSeq, but not
// Record, Flush, Read, Follow and Close.
package events
