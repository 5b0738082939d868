package main

import (
	"fmt"
	"slices"
)

const (
	likePlain = "≤ 1.05 × plain, no requests"
	newFiles  = "≤ 4 requests a file, 1.5 × ahead of FUSE peers, ≤ 4 × plain"
)

// rows in the order of the table.
var rows = slices.Concat(fileRows, coldRows, treeRows, historyRows(), shareRows, sealRows, lockRows)

var fileRows = []row{
	{name: "create", what: "create a file and write 4 KiB", unit: "µs", run: create, reach: "≤ 4 requests"},
	{name: "append", what: "append 100 bytes", unit: "µs", run: appendSome},
	{name: "read", what: "open, read 4 KiB, close, warm", unit: "µs", run: readWarm, reach: likePlain, warm: true},
	{name: "stat", what: "stat, warm", unit: "µs", run: statWarm, reach: likePlain, warm: true},
	{name: "rename", what: "rename a file", unit: "µs", run: rename},
	{name: "unlink", what: "unlink a file", unit: "µs", run: unlink},
	{name: "seqread", what: "read 512 MiB, warm", unit: "MB/s", higher: true, run: sequentialRead, reach: likePlain, warm: true},
	{name: "fsync", what: "append 4 KiB and fsync", unit: "µs", run: fsyncs, reach: "≤ 1.0 × plain"},
	{name: "sqlite", what: "500 SQLite commits of a row each", unit: "ms", run: sqlite(commits), reach: "≤ 1.0 × plain"},
}

var treeRows = []row{
	{name: "untar", what: "tar x of a large tree", unit: "s", run: untar, reach: newFiles},
}

// historyRows go through sizes, so that all rows of a size share its tree.
func historyRows() (all []row) {
	for _, size := range []struct {
		n    int
		name string
	}{{1_000, "1k"}, {10_000, "10k"}, {100_000, "100k"}, {1_000_000, "1m"}} {
		where, ref := keepsStates, "git"
		if size.n > 100_000 {
			where = onlyAmber // it takes the others hours
		}
		of := func(name, what string, where func(place) bool, reach string, do func(*work, *grown) (float64, error)) {
			all = append(all, row{
				name: name + "-" + size.name, what: fmt.Sprintf("%s, %d files", what, size.n), unit: "ms",
				where: where, ref: ref, reach: reach, run: onTree(size.n, 0, do), once: size.n > 10_000,
			})
		}
		of("capture", "snapshot after 10 changes", where, "< 0.5 ms, ≥ 1,000 × ahead of git at 100k", capture)
		of("restore", "restore of 10 changed files", where, "< 5 ms", restore)
		of("fork", "fork", onlyAmber, "as capture", fork)
		of("diff", "patch of 10 changed files", onlyAmber, "flat", diffTen)
		of("open", "mount of a store", onlyAmber, "flat", reopen)
	}
	return all
}

var shareRows = []row{
	{name: "seal", what: "sealing 1 GiB of new data, 2 writers beside it", unit: "MB/s", higher: true, where: onlyAmber, run: seal, reach: "≥ 250 MB/s"},
	{name: "idle", what: "times an idle daemon's threads leave a processor in 10 s", unit: "times", where: onlyAmber, run: idle, once: true, reach: "≤ 20"},
}
