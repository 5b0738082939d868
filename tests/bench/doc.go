// Package main is the command bench, which measures amberfs beside the plain directory on
// the same disk and beside the peers that the machine has.
//
//	make bench                            the rows of the documentation, within 40 minutes
//	make bench ROWS=untar,capture         some; ROWS=capture is all that begin so
//	make bench-disk                       a day that is bound by the disk
//	make bench-curves                     what grows
//	make bench-containers                 containers whose root directory is a fork
//	go run ./tests/bench -list            all rows, and what is to be reached
//	go run ./tests/bench -docs            the tables of the documentation
//
// Each place does a row's work once to warm up and then seven times. The places take turns,
// in one order and the other, so that what else the machine does affects all of them. All
// writes of one are on the disk before the next begins. The table has medians and ranges.
//
// Before and after each round 32 MiB are written to the disk three times. If the fastest
// speeds differ by more than 30 %, the round is discarded and repeated. So is a sample of a
// warm row that needed more requests, or reads of the disk, than usual: the machine took
// cached pages away.
//
// A row marks the part of its work that counts (work.timed). Around it the daemon's own
// figures are read, over HTTP and so without a request through the mount.
//
// The tree is the source of Go's standard library. A day of an agent is played in a clone of
// this repository, with packages from npm. -o FILE appends the samples as JSON lines;
// results/current.jsonl is the set that the documentation shows.
package main
