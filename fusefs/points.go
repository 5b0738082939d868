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
)

// beforeAnswer is where a test has a daemon end that has carried a request out, if the file "answer" is in
// the directory that the environment names: at the first request of the operations whose names begin with
// the file's text, or, if it is empty, at the first one that changes something.
func beforeAnswer(request []byte) {
	wanted, err := os.ReadFile(pointFile("answer"))
	if err != nil || len(wanted) == 0 && changesNothing(request) || !strings.HasPrefix(operations[opcode(request)], string(wanted)) {
		return
	}

	if os.Remove(pointFile("answer")) == nil {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Hour)
	}
}

// bystanderTime is how long a request takes that a test names "bystander".
const bystanderTime = time.Second

// beforeHandling is where each daemon crashes that carries a change of a name out that ends in "deadly":
// once one of a name that ends in "bystander" has begun.
func beforeHandling(request []byte) {
	switch begun := pointFile("bystander"); {
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

// beforeDropping is where the notices of an edit wait as long as the file "notices" is there. A file "waiting"
// shows that they do.
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
	return slices.Contains(reads, operations[opcode(request)])
}
