// Package stream has a tree as a stream of entries: what archives, directories and git are read as, and
// what a snapshot is built from.
//
// Imported by: archive, all of cmd, gitbridge, hostdir, all of service.
//
// A [Checker] stands between a source and its [Sink]. A [Writer] and [Read] pass a stream from one process
// to another.
package stream
