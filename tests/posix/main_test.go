// Package posix_test checks that the mount behaves as POSIX and Linux's manual
// pages say: go-fuse's suite, and cases of our own for what it leaves out.
// The daemon is a process of its own.
//
//	go test ./tests/posix -reference DIR
//
// runs the same cases in a plain directory instead: on ext4 or XFS they must
// pass too, or the case is wrong.
package posix_test

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

var reference = flag.String("reference", "", "run the cases in this directory, not on a mount")

func TestMain(m *testing.M) {
	// What tests create has the modes they ask for.
	unix.Umask(0o022)
	os.Exit(harness.Run(m))
}

// target is a directory to run cases in: on a mount, or the reference.
func target(t *testing.T, options ...string) string {
	t.Helper()
	if *reference == "" {
		return harness.New(t, options...).Dir
	}
	dir, err := os.MkdirTemp(*reference, "posix-")
	must.OK(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// inEach runs every case in a directory of its own.
func inEach(t *testing.T, cases map[string]func(*testing.T, string)) {
	t.Helper()
	root := target(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			must.OK(t, os.Mkdir(dir, 0o755))
			cases[name](t, dir)
		})
	}
}

// Two cases of the suite say nothing about a filesystem behind a mount, and
// its own test leaves them out as well: both fail on ext4.
func TestGoFuseSuite(t *testing.T) {
	cases := maps.Clone(posixtest.All)
	delete(cases, "FcntlFlockLocksFile") // takes its locks as one owner, which never conflict
	delete(cases, "OpenSymlinkRace")     // is about loopback filesystems
	inEach(t, cases)
}

func TestOwnCases(t *testing.T) {
	inEach(t, map[string]func(*testing.T, string){
		"Append":             appendInOrder,
		"BigDirectory":       bigDirectory,
		"CopyRange":          copyRange,
		"Fallocate":          fallocateModes,
		"DirectAsync":        directAsync,
		"FcntlLocks":         fcntlLocks,
		"Flock":              flock,
		"HardLinks":          hardLinks,
		"LargeFile":          largeFile,
		"ListWhileChanging":  listWhileChanging,
		"LongPaths":          longPaths,
		"MmapPrivate":        mmapPrivate,
		"MmapShared":         mmapShared,
		"Names":              names,
		"NlinkOfDirectories": nlinkOfDirectories,
		"OpenTruncate":       openTruncate,
		"OpenUnlinked":       openUnlinked,
		"RenameExchange":     renameExchange,
		"RenameIntoItself":   renameIntoItself,
		"RenameNoReplace":    renameNoReplace,
		"RenameOver":         renameOver,
		"RenameWhiteout":     renameWhiteout,
		"SeekDataAndHole":    seekDataAndHole,
		"SetgidDirectory":    setgidDirectory,
		"SpecialFiles":       specialFiles,
		"Statfs":             statfs,
		"SuidIsCleared":      suidIsCleared,
		"Symlinks":           symlinks,
		"Times":              times,
		"TimesOfDirectories": timesOfDirectories,
		"Tmpfile":            tmpfile,
		"TruncateBothWays":   truncateBothWays,
		"UnlinkedDirectory":  unlinkedDirectory,
		"WritesThroughFds":   writesThroughFds,
		"XattrFlags":         xattrFlags,
		"XattrNamespaces":    xattrNamespaces,
	})
}
