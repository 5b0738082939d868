package main

import (
	"fmt"
	"slices"
	"time"
)

const (
	likePlain = "≤ 1.05 × plain, no requests"
	newFiles  = "≤ 4 requests a file, 1.5 × ahead of FUSE peers, ≤ 4 × plain"
)

// rows in the order of the table.
var rows = slices.Concat(fileRows, coldRows, treeRows, historyRows(), shareRows, sealRows, lockRows, recoverRows(), nameRows(), restoreRows, scaleRows(), remoteRows())

var fileRows = []row{
	{name: "create", what: "create a file and write 4 KiB", unit: "µs", run: create, reach: "≤ 4 requests"},
	{name: "append", what: "append 100 bytes", unit: "µs", run: appendSome},
	{name: "read", what: "open, read 4 KiB, close, warm", unit: "µs", run: readWarm, reach: likePlain, warm: true},
	{name: "stat", what: "stat, warm", unit: "µs", run: statWarm, reach: likePlain, warm: true},
	{name: "rename", what: "rename a file", unit: "µs", run: rename},
	{name: "unlink", what: "unlink a file", unit: "µs", run: unlink},
	{name: "seqwrite", what: "write 1 GiB and fsync", unit: "MB/s", higher: true, run: sequentialWrite, reach: "≤ 1.3 × plain"},
	{name: "write-512", what: "write 512 MiB, 1 MiB at a time", unit: "MB/s", higher: true, run: writeLarge(false), reach: "≤ 2 × plain, ≤ 400 µs of CPU a MiB"},
	{name: "write-512-sync", what: "write 512 MiB and fsync", unit: "MB/s", higher: true, run: writeLarge(true), reach: "≤ 1.2 × plain"},
	{name: "temporary", what: "MiB sealed of a file of 512 that is removed at once", unit: "MiB", where: onlyAmber, run: temporary, reach: "0"},
	{name: "temporary-many", what: "MiB sealed of six files of 512, each removed when the next is written", unit: "MiB", where: onlyAmber, run: temporaries, reach: "0"},
	{name: "seqread", what: "read 512 MiB, warm", unit: "MB/s", higher: true, run: sequentialRead, reach: likePlain, warm: true},
	{name: "fsync", what: "append 4 KiB and fsync", unit: "µs", run: fsyncs, reach: "≤ 1.0 × plain"},
	{name: "sqlite", what: "500 SQLite commits of a row each", unit: "ms", run: sqlite(commits), reach: "≤ 1.0 × plain"},
	{name: "sqlite-mix", what: "SQLite, the mix of its speed test", unit: "ms", run: sqlite(mix), reach: "≤ 1.0 × plain"},
}

var treeRows = []row{
	{name: "untar", what: "tar x of a large tree", unit: "s", run: untar, reach: newFiles},
	{name: "clone", what: "git clone", unit: "s", run: clone, reach: newFiles},
	{name: "npm", what: "npm ci, offline", unit: "s", run: npmInstall, reach: newFiles},
	{name: "find", what: "find with a stat of each file, warm", unit: "ms", run: warm("find", ".", "-size", "+1G"), reach: likePlain, warm: true},
	{name: "rg", what: "ripgrep for what is not there, warm", unit: "ms", run: warm("rg", "no such text anywhere", "."), reach: likePlain, warm: true},
	{name: "rg-first", what: "ripgrep right after tar x", unit: "ms", run: first("rg", "no such text anywhere", ".")},
	{name: "grep", what: "grep -r for what is not there, warm", unit: "ms", run: warm("grep", "-r", "no such text anywhere", "."), reach: "≤ 1.05 × plain", warm: true},
	{name: "git-status", what: "git status of a clean tree, warm", unit: "ms", run: gitStatus, reach: likePlain, warm: true},
	{name: "gobuild", what: "go build of this project, all in the cache", unit: "s", run: goCommand("build", "-o", "amberfs.bin", "./cmd/amberfs"), reach: "≤ 1.5 × plain"},
	{name: "gotest", what: "go test of a package that writes files", unit: "s", run: goCommand("test", "-count=1", "./snapshot/journal"), reach: "≤ 1.5 × plain"},
	{name: "cp", what: "cp -r of a large tree within", unit: "s", run: copyTree, reach: "≤ 0.7 × plain"},
	{name: "rm", what: "rm -rf of a large tree", unit: "s", run: removeTree},
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
				where: where, ref: ref, reach: reach, run: onTree(size.n, 0, do), once: size.n > 10_000, series: name, x: float64(size.n),
			})
		}
		of("capture", "snapshot after 10 changes", where, "< 0.5 ms, ≥ 1,000 × ahead of git at 100k", capture)
		of("restore", "restore of 10 changed files", where, "< 5 ms", restore)
		of("fork", "fork", onlyAmber, "as capture", fork)
		of("diff", "patch of 10 changed files", onlyAmber, "flat", diffTen)
		of("open", "mount of a store", onlyAmber, "flat", reopen)
	}
	for _, size := range []struct {
		n    int
		name string
	}{{1_000, "1k"}, {10_000, "10k"}, {100_000, "100k"}, {1_000_000, "1m"}} {
		all = append(all, row{
			name: "lookup-" + size.name, what: fmt.Sprintf("first stat in a directory of %d", size.n), unit: "µs", where: onlyAmber,
			run: lookup(size.n), once: true, series: "lookup", x: float64(size.n), reach: "flat",
		})
	}
	for _, n := range []int{1, 10, 100, 1000} {
		of := func(name, what, unit, reach string, do func(*work, *grown) (float64, error)) {
			all = append(all, row{
				name: fmt.Sprintf("%s-s%d", name, n), what: fmt.Sprintf("%s, %d snapshots of 10000 files", what, n), unit: unit,
				where: onlyAmber, run: onTree(10_000, n, do), once: true, series: name + " by snapshots", x: float64(n), reach: reach,
			})
		}
		of("capture", "snapshot after 10 changes", "ms", "flat", capture)
		of("restore", "restore of 10 changed files", "ms", "flat", restore)
		of("fork", "fork", "ms", "flat", fork)
		of("diff", "patch of 10 changed files", "ms", "flat", diffTen)
		of("open", "mount of a store", "ms", "flat", reopen)
	}
	return append(all,
		row{name: "restore-unsealed", what: "restore of 10 changed files among 100000 just written", unit: "ms", where: onlyAmber,
			run: restoreUnsealed(100_000), once: true, reach: "< 5 ms"},
		row{name: "space-unchanged", what: "disk per snapshot of an unchanged tree, of 100", unit: "bytes", where: onlyAmber,
			run: spaceOfUnchanged, once: true, reach: "< 1 KiB"},
		row{name: "space-states", what: "ten states of a repository with node_modules", unit: "MB", alone: tenStates, ref: "unique contents", reach: "≤ 1.2 × restic, after gc ≤ 1.0 ×"},
		row{name: "space-go", what: "ten states of 2,900 Go files, a tenth changed in each", unit: "MB", alone: goStates, ref: "unique contents", reach: "≤ 1.2 × restic, after gc ≤ 1.0 ×"},
	)
}

func loaded(p place) bool        { return p.kind == amber || p.kind == btrfs }
func loadedOrPlain(p place) bool { return loaded(p) || p.kind == plain }

var shareRows = []row{
	{name: "create-8", what: "create a file and write 4 KiB, 8 writers", unit: "µs", run: createByEight},
	{name: "capture-8", what: "99th percentile of snapshots under 8 writers", unit: "ms", where: loaded, run: captureUnderLoad, reach: "< 5 ms"},
	{name: "delayed-8", what: "99th percentile of the slowest create during each", unit: "ms", where: loaded, run: delayedWrite(0), reach: "< 5 ms"},
	{name: "undisturbed-8", what: "the same 5 ms later, when there is none", unit: "ms", where: loadedOrPlain, run: delayedWrite(5 * time.Millisecond)},
	{name: "seal", what: "sealing 1 GiB of new data, 2 writers beside it", unit: "MB/s", higher: true, where: onlyAmber, run: seal, reach: "≥ 250 MB/s"},
	{name: "idle", what: "times an idle daemon's threads leave a processor in 10 s", unit: "times", where: onlyAmber, run: idle, once: true, reach: "≤ 20"},
	{name: "memory-new", what: "resident memory for an inode just made", unit: "bytes", where: onlyAmber, run: memory(false, (*amberHistory).resident), once: true, reach: "≤ 500"},
	{name: "memory-new-rest", what: "the same some seconds later", unit: "bytes", where: onlyAmber, run: memory(false, (*amberHistory).rested), once: true, reach: "≤ 500"},
	{name: "memory-known", what: "resident memory for a sealed inode that the kernel holds", unit: "bytes", where: onlyAmber, run: memory(true, (*amberHistory).resident), once: true, reach: "≤ 200"},
	{name: "memory-known-rest", what: "the same some seconds later", unit: "bytes", where: onlyAmber, run: memory(true, (*amberHistory).rested), once: true, reach: "≤ 200"},
	{name: "memory-walked", what: "resident memory once find has walked a million files", unit: "MiB", where: onlyAmber, run: memoryWalked(1_000_000), once: true, reach: "< 300 MiB"},
}
