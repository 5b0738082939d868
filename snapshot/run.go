package snapshot

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"lukechampine.com/blake3"

	"github.com/amberfs/amberfs/snapshot/journal"
)

// currentRun returns the run of the filesystem that holds a directory, zero when
// the kernel does not tell (before Linux 6.8).
func currentRun(dir string) journal.Run {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return journal.Run{}
	}
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID_UNIQUE, &st); err != nil || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return journal.Run{}
	}
	sum := blake3.Sum256(fmt.Appendf(nil, "%s %d", strings.TrimSpace(string(boot)), st.Mnt_id))
	return journal.Run(sum[:16])
}
