package hostile_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestHandles: nodes are opened by their numbers only if that is switched on. Before
// Linux 6.9 a filesystem cannot refuse it.
func TestHandles(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs CAP_DAC_READ_SEARCH")
	}
	for _, options := range [][]string{nil, {"-o", "handles"}} {
		m := harness.New(t, options...)
		must.OK(t, os.WriteFile(m.Path("f"), []byte("x"), 0o600))
		mount, err := os.Open(m.Dir)
		must.OK(t, err)
		defer mount.Close()
		handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, m.Path("f"), 0)
		if err == nil {
			var fd int
			if fd, err = unix.OpenByHandleAt(int(mount.Fd()), handle, unix.O_RDONLY); err == nil {
				unix.Close(fd)
			}
		}
		if opened := err == nil; opened != (options != nil || !harness.LinuxAtLeast(6, 9)) {
			t.Errorf("%v: %v", options, err)
		}
	}
}
