// Package stream defines a tree as a stream of entries. Archives, directories and repositories of git are read
// as such streams, and snapshots are built from them.
//
// Imported by: archive, all of cmd, gitbridge, hostdir, all of service.
//
// A [Checker] stands between a source and its [Sink]. A [Writer] and [Read] send a stream from one process to
// another.
package stream
