package daemon

import (
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// asOwner lets root work on a store that is not mounted as the one whose it is,
// until the returned function is called: what is written there stays the owner's,
// and nothing that lies in the store leads to what the owner may not touch. Where
// the owner cannot get at the store, root goes on as root.
func asOwner(store string) (back func()) {
	back = func() {}
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Lstat(store, &st) != nil || st.Uid == 0 {
		return back
	}
	gid := os.Getegid()
	if syscall.Setresgid(-1, int(st.Gid), -1) != nil {
		return back
	}
	if syscall.Setresuid(-1, int(st.Uid), -1) != nil {
		_ = syscall.Setresgid(-1, gid, -1)
		return back
	}
	back = func() {
		_ = syscall.Setresuid(-1, 0, -1)
		_ = syscall.Setresgid(-1, gid, -1)
	}
	if _, err := os.Stat(filepath.Join(store, "format")); err != nil {
		back()
		return func() {}
	}
	return back
}
