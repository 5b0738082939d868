package locate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Anybody may mount a FUSE file system that calls itself fuse.amberfs, with any source. What
// nobody can choose is user_id=, the user that mounted it. So a mount counts for that user and,
// if root made it, for everybody. For root it counts if the store belongs to that user, too.

// ErrForeign is the error of Find for a mount that another user made.
var ErrForeign = errors.New("is in a mount of another user")

// MountedBy is the user that made a FUSE mount.
func MountedBy(m Mount) (uid int, ok bool) {
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if text, found := strings.CutPrefix(option, "user_id="); found {
			uid, err := strconv.Atoi(text)
			return uid, err == nil
		}
	}
	return 0, false
}

// Believed reports whether this process may take a mount for one of amberfs.
func Believed(m Mount) bool {
	return m.FSType == FSType && believedBy(m, os.Geteuid(), own())
}

func believedBy(m Mount, caller int, here idMap) bool {
	uid, ok := MountedBy(m)
	switch {
	case !ok:
		return false
	case uid == 0 || here.same(uid, caller):
		return true
	case caller != 0:
		return false
	}

	st, err := os.Stat(m.Source)
	if err != nil {
		return true // the store is not here: only the mount itself can be asked
	}

	return here.same(uid, int(st.Sys().(*syscall.Stat_t).Uid))
}

// Foreign reports whether the mount of a place was made by another user than root or the caller.
func (p Place) Foreign() (uid int, foreign bool) {
	uid, ok := MountedBy(p.Mount)
	return uid, ok && uid != 0 && !own().same(uid, os.Geteuid())
}

// IsUser reports whether a process of a user, as this process sees its number, may serve the
// mount of a place. A place that Find did not return is of a store, not of a mount.
func (p Place) IsUser(peer uint32) bool {
	uid, ok := MountedBy(p.Mount)
	return !ok || own().same(uid, int(peer))
}

func foreign(dir string, m Mount) error {
	uid, _ := MountedBy(m)
	return fmt.Errorf("%s %w (uid %d)", dir, ErrForeign, uid)
}

// An idMap translates the numbers of users outside of the caller's user namespace to those
// inside. The mount table has either, depending on where the mount was made.
type idMap [][3]int // inside, outside, count

func own() (m idMap) {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil
	}

	for line := range strings.Lines(string(text)) {
		var r [3]int
		if n, _ := fmt.Sscan(line, &r[0], &r[1], &r[2]); n == len(r) {
			m = append(m, r)
		}
	}

	return m
}

// same reports whether uid, of a mount, is the user here.
func (m idMap) same(uid, here int) bool {
	if uid == here {
		return true
	}

	for _, r := range m {
		if uid >= r[1] && uid-r[1] < r[2] && here == r[0]+uid-r[1] {
			return true
		}
	}

	return false
}
