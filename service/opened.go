package service

import (
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/live"
)

// forgetTime is how long the kernel gets to forget what it only had cached.
const forgetTime = 10 * time.Millisecond

// openIn names the programs that have a file open which has no name any more: they go
// on with what it was. The processes of the machine are looked at only if the kernel
// still knows such a file a moment after it was told that the file went.
func (s *Service) openIn(r *Request, gone []live.NodeID) []Program {
	if s.Opened == nil {
		return nil
	}
	forest := s.Store.Forest()
	for end := time.Now().Add(forgetTime); ; time.Sleep(time.Millisecond / 4) {
		gone = slices.DeleteFunc(gone, func(id live.NodeID) bool { return !forest.Held(id) })
		if len(gone) == 0 {
			return nil
		}
		if time.Now().After(end) {
			break
		}
	}
	programs := s.Opened(gone)
	if r.Caller.Direct || !r.Workspace.IsFork() {
		return programs
	}
	// Who has only the fork is told of programs of its own user, and of no path.
	var out []Program
	for _, p := range programs {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", p.PID), &st) == nil && st.Uid == r.Caller.UID && int(st.Uid) != os.Geteuid() {
			out = append(out, Program{PID: p.PID, Command: p.Command})
		}
	}
	return out
}
