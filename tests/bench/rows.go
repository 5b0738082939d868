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
var rows = slices.Concat(fileRows, coldRows, treeRows, historyRows(), dayRows, shareRows, sealRows, lockRows)

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

// historyRows compare a snapshot and a restore in all places that have them, as a command
// and as the call alone, and go through sizes in the mount.
func historyRows() (all []row) {
	for _, size := range []struct {
		n    int
		name string
	}{{1_000, "1k"}, {10_000, "10k"}, {100_000, "100k"}, {1_000_000, "1m"}} {
		shared := size.n == 10_000
		of := func(name, what string, where func(place) bool, reach string, do func(*work, *grown) (float64, error), how func(place) string) {
			all = append(all, row{
				name: name + "-" + size.name, what: fmt.Sprintf("%s, %d files", what, size.n), unit: "ms",
				where: where, ref: "git", reach: reach, run: onTree(size.n, do), named: !shared, how: how,
			})
		}
		where := onlyAmber
		if shared {
			where = keepsStates
		}
		of("capture", "snapshot after 10 changes, as a command", where, "", capture(history.capture), commandHow)
		of("capture-call", "snapshot after 10 changes, the call alone", where, "< 0.5 ms", capture(history.captureCall), callHow)
		of("restore", "restore of 10 changed files, as a command", where, "", restore(history.restore), commandHow)
		of("restore-call", "restore of 10 changed files, the call alone", where, "< 5 ms", restore(history.restoreCall), callHow)
		of("fork", "fork", onlyAmber, "as capture", fork, nil)
		of("diff", "patch of 10 changed files", onlyAmber, "flat", diffTen, nil)
		of("open", "mount of a store", onlyAmber, "flat", reopen, nil)
	}
	return all
}

func commandHow(p place) string {
	switch p.kind {
	case amber:
		return "mkdir .snapshots/N; mv .snapshots/restore .snapshots/restore@N"
	case btrfs:
		return "btrfs subvolume snapshot -r; btrfs subvolume delete, then snapshot"
	case reflink:
		return "cp -a --reflink=auto; rm -r, then cp"
	}
	return "git add --all, write-tree, commit-tree, update-ref; add --all, read-tree -u --reset; warm index, untracked cache"
}

func callHow(p place) string {
	switch p.kind {
	case amber:
		return "mkdir(2); rename(2)"
	case btrfs:
		return "BTRFS_IOC_SNAP_CREATE_V2; BTRFS_IOC_SNAP_DESTROY, then create"
	}
	return "FICLONE of each file; unlink, then FICLONE"
}

var shareRows = []row{
	{name: "seal", what: "sealing 1 GiB of new data, 2 writers beside it", unit: "MB/s", higher: true, where: onlyAmber, run: seal, reach: "≥ 300 MB/s", named: true},
	{name: "idle", what: "times an idle daemon's threads leave a processor in 10 s", unit: "times", where: onlyAmber, run: idle, named: true, reach: "≤ 20"},
}
