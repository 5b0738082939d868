package watchers_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestForkMadeAgain: a fork that has the name of one that was just deleted stays known to a
// program that works in it. The notice of the deletion comes after the new fork was made.
func TestForkMadeAgain(t *testing.T) {
	if !harness.LinuxAtLeast(6, 2) {
		t.Skip("needs Linux 6.2: before, the kernel drops the name of the new one")
	}
	m := harness.New(t)
	for range 400 {
		must.OK(t, os.Mkdir(m.Path(".forks/x"), 0o755))
		dir, err := os.Open(m.Path(".forks/x"))
		must.OK(t, err)
		for i := 0; i < 20 && err == nil; i++ {
			var path string
			path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd())) // as getcwd finds it
			if err == nil && path != m.Path(".forks/x") {
				err = fmt.Errorf("its path is %s", path)
			}
		}
		dir.Close()
		must.OK(t, err)
		must.OK(t, os.Remove(m.Path(".forks/x")))
	}
}
