// Package main is the command bench, which measures amberfs beside the plain
// directory on the same disk and beside the peers that the machine has, and
// prints one table of medians, ranges and ratios.
//
//	make bench                            the rows of the documentation
//	make bench ROWS=untar,capture-100k    some; ROWS=capture is all that begin so
//	go run ./tests/bench -list            all rows, and what is to be reached
//	go run ./tests/bench -docs            the tables of the documentation
//
// # How it measures
//
// Each place does a row's work once to warm up and then seven times, the places by
// turns, so that what else the machine does affects all of them. Figures are medians with
// the range of all samples; a ratio is to the plain directory of the same run, or, where
// that has no snapshots, to git. The load of the machine is kept with each row.
//
// Before and after a row 64 MiB are written to the disk. If the two speeds differ by
// more than 30 %, the row is measured again; if they still do, it is marked as uneven.
// A sample of a warm row that needed more requests than is usual is discarded, and the
// table says so: the machine took cached pages away.
//
// A row marks the part of its work that counts (work.timed). Around it the daemon's own
// figures are read, over HTTP and so without a request through the mount: the requests
// by kind, the processor time and the allocations of each, how long goroutines waited for
// locks, and the records of the journal.
//
// # Places
//
// The mount; a plain directory; go-fuse's loopback, built from the module that this
// project uses anyway; fuse-overlayfs; and, as root, the kernel's overlayfs and btrfs and
// XFS on loop devices. Snapshots are compared with btrfs's subvolumes, with copies that
// share blocks on XFS and with a git repository beside the tree, as agent tools keep it:
// each as its users' command and, where one exists, as the call of the kernel alone. A
// place that the machine cannot have is left out with a sentence.
//
// # Inputs
//
// The tree is the source of Go's standard library, which every machine with Go has. A day
// of an agent is played in a clone of this repository, with packages from npm.
//
// -o FILE appends the samples as JSON lines with the commit, the kernel and the machine;
// results/current.jsonl is the set that the documentation shows.
package main
