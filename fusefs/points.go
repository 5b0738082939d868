//go:build points

package fusefs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs/wire"
)

// beforeAnswer kills the daemon before it answers a request that it has carried out, if a test has put the
// file "answer" into the directory $AMBERFS_TEST_POINTS. The text of the file is the beginning of the name of
// the operation; if the file is empty, the daemon is killed at the first request that changes something.
func beforeAnswer(request []byte) {
	wanted, err := os.ReadFile(pointFile("answer"))
	if err != nil || len(wanted) == 0 && changesNothing(request) || !strings.HasPrefix(wire.Operations[wire.Opcode(request)], string(wanted)) {
		return
	}

	if os.Remove(pointFile("answer")) == nil {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Hour)
	}
}

// bystanderTime is how long a change of a name that ends in "bystander" takes.
const bystanderTime = time.Second

// beforeHandling crashes the daemon at a request that changes a name with the ending "deadly". It first waits until a
// request that changes a name with the ending "bystander" has begun. At a request that looks
// diff@poison up, it crashes the daemon once a test has written the file "poison".
func beforeHandling(request []byte) {
	switch begun := pointFile("bystander"); { // this file exists once the change has begun
	case bytes.HasSuffix(request, []byte("diff@poison\x00")):
		for os.Remove(pointFile("poison")) != nil {
			time.Sleep(time.Millisecond)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGABRT)
		time.Sleep(time.Hour)
	case changesNothing(request):
	case bytes.HasSuffix(request, []byte("bystander\x00")):
		_ = os.WriteFile(begun, nil, 0o600)
		time.Sleep(bystanderTime)
	case bytes.HasSuffix(request, []byte("deadly\x00")):
		for _, err := os.Stat(begun); err != nil; _, err = os.Stat(begun) {
			time.Sleep(time.Millisecond)
		}
		_ = unix.Kill(os.Getpid(), unix.SIGABRT)
		time.Sleep(time.Hour)
	}
}

// beforeDropping delays the notices of an edit as long as the file "notices" exists. It writes the file
// "waiting" to show the test that the notices are delayed.
func beforeDropping() {
	for _, err := os.Stat(pointFile("notices")); err == nil; _, err = os.Stat(pointFile("notices")) {
		_ = os.WriteFile(pointFile("waiting"), nil, 0o600)
		time.Sleep(time.Millisecond)
	}
}

func pointFile(name string) string { return filepath.Join(os.Getenv("AMBERFS_TEST_POINTS"), name) }

func changesNothing(request []byte) bool {
	reads := []string{"", "LOOKUP", "FORGET", "GETATTR", "READLINK", "READ", "STATFS", "GETXATTR", "LISTXATTR", "READDIR", "READDIRPLUS",
		"ACCESS", "STATX", "LSEEK", "OPEN", "OPENDIR", "RELEASE", "RELEASEDIR", "FLUSH", "INTERRUPT"}
	return slices.Contains(reads, wire.Operations[wire.Opcode(request)])
}
