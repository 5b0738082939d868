//go:build points

package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// failPoint makes a daemon fail at a named point of its start, if a test has put a file with this name into the
// directory $AMBERFS_TEST_POINTS. The text of the file is the kind of failure. failPoint removes the file.
func failPoint(name string) error {
	file := filepath.Join(os.Getenv("AMBERFS_TEST_POINTS"), name)
	how, err := os.ReadFile(file)
	if err != nil || os.Remove(file) != nil {
		return nil
	}

	switch how := strings.TrimSpace(string(how)); how {
	case "fail":
		return errors.New("a test wants this start to fail")
	case "exit":
		os.Exit(3)
	case "kill":
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		time.Sleep(time.Hour)
	case "descriptors":
		limit := &unix.Rlimit{}
		_ = unix.Getrlimit(unix.RLIMIT_NOFILE, limit)
		open, _ := os.ReadDir("/proc/self/fd")
		limit.Cur = uint64(len(open)) - 1
		return unix.Setrlimit(unix.RLIMIT_NOFILE, limit)

	case "disk":
		return fmt.Errorf("a test wants a full disk: %w", unix.ENOSPC)
	}

	return nil
}
