package main

// rows in the order of the table.
var rows = []row{
	{name: "create", what: "create a file and write 4 KiB", unit: "µs", where: notGit, run: create},
	{name: "append", what: "append 100 bytes", unit: "µs", where: notGit, run: appendSome},
	{name: "read", what: "open, read 4 KiB, close, warm", unit: "µs", where: notGit, run: readWarm},
	{name: "stat", what: "stat, warm", unit: "µs", where: notGit, run: statWarm},
	{name: "rename", what: "rename a file", unit: "µs", where: notGit, run: rename},
	{name: "unlink", what: "unlink a file", unit: "µs", where: notGit, run: unlink},
	{name: "seqwrite", what: "write 1 GiB and fsync", unit: "MB/s", higher: true, where: notGit, run: sequentialWrite},
	{name: "seqread", what: "read 512 MiB, warm", unit: "MB/s", higher: true, where: notGit, run: sequentialRead},
	{name: "fsync", what: "append 4 KiB and fsync", unit: "µs", where: notGit, run: fsyncs},
	{name: "sqlite", what: "500 SQLite commits", unit: "ms", where: notGit, run: sqlite},
	{name: "untar", what: "untar the Go standard library", unit: "s", where: notGit, run: untar},
	{name: "clone", what: "git clone of this repository", unit: "s", where: notGit, run: clone},
	{name: "find", what: "find through the Go standard library, warm", unit: "ms", where: notGit, run: onTree("find", ".", "-size", "+1G")},
	{name: "grep", what: "grep -r through the Go standard library, warm", unit: "ms", where: notGit, run: onTree("grep", "-r", "no such text anywhere", ".")},
	{name: "status", what: "git status of a clean tree, warm", unit: "ms", where: notGit, run: gitStatus},
	{name: "cp", what: "cp -r of the Go standard library within", unit: "s", where: notGit, run: copyTree},
	{name: "rm", what: "rm -rf of the Go standard library", unit: "s", where: notGit, run: removeTree},
	{name: "gobuild", what: "go build of this project, warm cache", unit: "s", where: notGit, run: goBuild},
	{name: "capture-1k", what: "snapshot of a tree of 1,000 files", unit: "ms", where: keepsStates, run: capture(1_000)},
	{name: "capture-10k", what: "snapshot of a tree of 10,000 files", unit: "ms", where: keepsStates, run: capture(10_000)},
	{name: "capture-100k", what: "snapshot of a tree of 100,000 files", unit: "ms", where: keepsStates, run: capture(100_000), once: true},
	{name: "restore-1k", what: "restore of 10 changed files among 1,000", unit: "ms", where: keepsStates, run: restore(1_000)},
	{name: "restore-10k", what: "restore of 10 changed files among 10,000", unit: "ms", where: keepsStates, run: restore(10_000)},
	{name: "restore-100k", what: "restore of 10 changed files among 100,000", unit: "ms", where: keepsStates, run: restore(100_000), once: true},
	{name: "fork-10k", what: "fork of a tree of 10,000 files", unit: "ms", where: onlyAmber, run: fork(10_000)},
	{name: "seal", what: "sealing 512 MiB of new data", unit: "MB/s", higher: true, where: onlyAmber, run: seal},
	{name: "space", what: "disk per snapshot of an unchanged tree, of 100", unit: "bytes", where: onlyAmber, run: spaceOfUnchanged, once: true},
}

func notGit(p place) bool    { return p.kind != git }
func onlyAmber(p place) bool { return p.kind == amber }

// keepsStates is where a whole tree can be captured and brought back: the
// mount, git's way, btrfs.
func keepsStates(p place) bool { return p.kind == amber || p.kind == git || p.kind == btrfs }
