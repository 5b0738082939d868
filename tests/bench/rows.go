package main

import "slices"

const (
	likePlain = "≤ 1.05 × plain, no requests"
	newFiles  = "≤ 4 requests a file, 1.5 × ahead of FUSE peers, ≤ 4 × plain"
)

// rows in the order of the table.
var rows = slices.Concat(dayRows, fileRows, coldRows, literatureRows, historyRows, besideRows, pageRows, curveRows, pauseRows, copyRows, containerRows)

var fileRows = []row{
	{name: "create", what: "create a file and write 4 KiB", unit: "µs", run: create, reach: "≤ 4 requests", how: same("1,000 × open(O_CREAT), write(4096), close")},
	{name: "append", what: "append 100 bytes", unit: "µs", run: appendSome, how: same("10,000 × write(100) with O_APPEND")},
	{name: "read", what: "open, read 4 KiB, close, warm", unit: "µs", run: readWarm, reach: likePlain, warm: true, how: same("18,000 × open, read(4096), close of 300 files, each read once before")},
	{name: "stat", what: "stat, warm", unit: "µs", run: statWarm, reach: likePlain, warm: true, how: same("60,000 × lstat of 300 files, each asked for once before")},
	{name: "rename", what: "rename a file", unit: "µs", run: rename, how: same("500 × rename in one directory")},
	{name: "unlink", what: "unlink a file", unit: "µs", run: unlink, how: same("500 × unlink in one directory")},
	{name: "seqread", what: "read 512 MiB, warm", unit: "MB/s", run: sequentialRead, reach: likePlain, warm: true, how: same("3 × read(1 MiB) to the end, read once before")},
	{name: "fsync", what: "append 4 KiB and fsync", unit: "µs", run: fsyncs, reach: "≤ 1.0 × plain", how: same("200 × write(4096), fsync")},
	{name: "sqlite", what: "500 SQLite commits of a row each", unit: "ms", run: sqlite, reach: "≤ 1.0 × plain", how: same("sqlite3 -bail FILE, one INSERT a transaction, its default journal")},
	{name: "untar", what: "tar x of a large tree", unit: "s", run: untar, reach: newFiles, where: unpacks, how: same("tar xf TREE.tar, the source of Go's standard library")},
}

// unpacks leaves out those that only add to what the plain directory takes.
func unpacks(p place) bool { return p.kind != peer && playsDay(p) && p.kind != git }

// shared is how many files the trees have in which places are compared.
const shared = 10_000

// historyRows compare a snapshot and a restore in all places that have them, as a command
// and as the call alone.
var historyRows = []row{
	{name: "capture", what: "snapshot after 10 changes, as a command", unit: "ms", where: keepsStates, run: onTree(capture(history.capture)), how: commandHow},
	{name: "capture-call", what: "snapshot after 10 changes, the call alone", unit: "ms", where: keepsStates, reach: "< 0.5 ms", run: onTree(capture(history.captureCall)), how: callHow},
	{name: "restore", what: "restore of 10 changed files, as a command", unit: "ms", where: keepsStates, run: onTree(restore(history.restore)), how: commandHow},
	{name: "restore-call", what: "restore of 10 changed files, the call alone", unit: "ms", where: keepsStates, reach: "< 5 ms", run: onTree(restore(history.restoreCall)), how: callHow},
}

// commandHow is a snapshot and a restore as their users' commands.
func commandHow(p place) string {
	switch p.kind {
	case amber:
		return "mkdir .snapshots/N; mv .snapshots/restore .snapshots/restore@N"
	case btrfs:
		return "btrfs subvolume snapshot -r TREE N; btrfs subvolume delete TREE, btrfs subvolume snapshot N TREE"
	case reflink:
		return "cp -a --reflink=auto TREE N; unlink of all, cp -a --reflink=auto N TREE"
	}
	return "git add --all, write-tree, commit-tree, update-ref; git add --all, read-tree -u --reset; GIT_DIR beside the tree, warm index, core.untrackedCache"
}

// callHow is the same without a process.
func callHow(p place) string {
	switch p.kind {
	case amber:
		return "mkdir(2); rename(2)"
	case btrfs:
		return "BTRFS_IOC_SNAP_CREATE_V2; BTRFS_IOC_SNAP_DESTROY, BTRFS_IOC_SNAP_CREATE_V2"
	}
	return "mkdir(2) and FICLONE of each file; unlink(2) of all, mkdir(2) and FICLONE of each"
}
