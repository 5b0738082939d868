// Package main is the command bench, which measures amberfs beside the plain
// directory on the same disk and beside the peers that the machine has, and
// prints one table of medians and ratios.
//
//	make bench                            all rows
//	make bench ROWS=untar,capture-10k     some; ROWS=capture is all that begin so
//	go run ./tests/bench -list            what there is, and what is to be reached
//	go run ./tests/bench -markdown FILE...
//	                                      a table of rows kept before
//
// # How it measures
//
// Each repetition runs a row's work once in every place, one after the other,
// so that what else the machine does hits all alike. Figures are medians over
// the repetitions; a ratio is to the plain directory of the same run, or, for
// what a plain directory cannot do, to what people use today instead. The load
// of the machine is kept with each row.
//
// A row marks the part of its work that counts (work.timed). Around it the
// daemon's own figures are read, over HTTP and so without a request through the
// mount: which requests reached it for each thing done, what CPU time and how
// many allocations a request took, how long goroutines waited for locks, and how
// many records went into the journal. A row of warm reads has no requests.
//
// # Places
//
// The mount; a plain directory; go-fuse's loopback, built from the module that
// this project uses anyway; fuse-overlayfs; and, as root, the kernel's overlayfs
// and btrfs and XFS on loop devices. Histories are compared with btrfs's
// subvolumes, with `cp -a --reflink=auto` on XFS and with the git recipe of
// agent tools. A place that the machine cannot have is left out with a sentence.
//
// # Inputs
//
// The tree is the source of Go's standard library, which every machine with Go
// has.
//
// -o FILE appends the rows as JSON lines with the commit, the kernel and the
// machine; results/ keeps those worth keeping.
package main
