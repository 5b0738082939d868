package service

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
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
	return shown(r, s.Opened(gone))
}

// checkInside refuses to end a fork that is the root or the working directory of
// programs, or has a fork in it that is.
func (s *Service) checkInside(r *Request, name string) error {
	f, err := r.Workspace.Forks().Named(name)
	if err != nil || s.Inside == nil {
		return nil // it is told where the fork is ended
	}
	var views []uint32
	for all := []*snapshot.Workspace{f}; len(all) > 0; {
		f, all = all[0], all[1:]
		views = append(views, f.View())
		for _, in := range f.Forks().List() {
			if sub, err := f.Forks().Named(in.Name); err == nil {
				all = append(all, sub)
			}
		}
	}
	inside := s.Inside(views)
	if len(inside) == 0 {
		return nil
	}
	text := fmt.Sprintf("%d process(es) have the fork %s as root or working directory", len(inside), name)
	if known := shown(r, inside); len(known) > 0 {
		text += ": " + ProgramsText(known)
	}
	return fail.New(fail.Busy, "%s", text).WithHint("end them first, or use --force")
}

// ProgramsText names programs on one line.
func ProgramsText(programs []Program) string {
	var names []string
	for i, p := range programs {
		if i == 5 {
			names = append(names, fmt.Sprintf("%d more", len(programs)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s (process %d)", p.Command, p.PID))
	}
	return strings.Join(names, ", ")
}

// shown is what a caller may know of programs. A caller that reaches only a fork learns
// of programs of its own user, without paths.
func shown(r *Request, programs []Program) []Program {
	if r.Caller.Direct || !r.Workspace.IsFork() {
		return programs
	}
	var out []Program
	for _, p := range programs {
		var st unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", p.PID), &st) == nil && st.Uid == r.Caller.UID && int(st.Uid) != os.Geteuid() {
			out = append(out, Program{PID: p.PID, Command: p.Command})
		}
	}
	return out
}
