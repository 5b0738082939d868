package index

import (
	"log/slog"
	"os/exec"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestLockWaitsForStartedPrograms: an index opens again at once while this process starts programs, each of
// which has the lock of a closed index until its execve(2).
func TestLockWaitsForStartedPrograms(t *testing.T) {
	dir, stop := t.TempDir(), make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				_ = exec.Command("/proc/self/exe", "-test.run", "^$").Run()
			}
		}
	}()

	for range 100 {
		x, err := Open(dir, slog.New(slog.DiscardHandler), false)
		must.OK(t, err)
		must.OK(t, x.Close())
	}

	close(stop)
	<-ended
}
