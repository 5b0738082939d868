package locate

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Every user may mount a FUSE file system with the type fuse.amberfs and any source. Only the option
// user_id=, the user that mounted it, cannot be chosen. So a user trusts mounts by this user or by root.
// Root trusts mounts by root, and mounts by another user if the store belongs to the same user.

// ErrForeign is the error of Find for a mount that another user made.
var ErrForeign = errors.New("is in a mount of another user")

// MountingUser returns the user that made a FUSE mount. ok is false for other mounts.
func MountingUser(m Mount) (uid int, ok bool) {
	for option := range strings.SplitSeq(m.VFSOptions, ",") {
		if text, found := strings.CutPrefix(option, "user_id="); found {
			uid, err := strconv.Atoi(text)
			return uid, err == nil
		}
	}
	return 0, false
}

// IsTrusted reports whether a mount is an amberfs mount that this process trusts.
func IsTrusted(m Mount) bool {
	return m.FSType == FSType && trustedBy(m, os.Geteuid(), ownIDMap())
}

// trustedBy reports whether the user with the id caller trusts a FUSE mount. ids is the map of the user namespace
// of this process.
func trustedBy(m Mount, caller int, ids idMap) bool {
	uid, ok := MountingUser(m)
	switch {
	case !ok:
		return false
	case uid == 0 || ids.isUser(uid, caller):
		return true
	case caller != 0:
		return false
	}

	st, err := os.Stat(m.Source)
	if err != nil {
		return true // the store is not visible in this namespace: the mount is trusted without knowing the store's owner
	}

	return ids.isUser(uid, int(st.Sys().(*syscall.Stat_t).Uid))
}

// ForeignUser returns the user that made the mount of a location. foreign is false if this is root or the caller.
func (p Location) ForeignUser() (uid int, foreign bool) {
	uid, ok := MountingUser(p.Mount)
	return uid, ok && uid != 0 && !ownIDMap().isUser(uid, os.Geteuid())
}

// MayBeDaemon reports whether a process of the user peer may be the daemon of the location's mount. peer is a
// number in the user namespace of the caller. A Location that Find did not make has no mount: then every
// user may be the user of its daemon.
func (p Location) MayBeDaemon(peer uint32) bool {
	uid, ok := MountingUser(p.Mount)
	return !ok || ownIDMap().isUser(uid, int(peer))
}

func foreignError(dir string, m Mount) error {
	uid, _ := MountingUser(m)
	return fmt.Errorf("%s %w (uid %d)", dir, ErrForeign, uid)
}

// An idMap translates user numbers outside the caller's user namespace to user numbers inside it. The
// mount table has either kind of number, depending on the namespace in which the mount was made.
type idMap [][3]int // inside, outside, count

// ownIDMap reads the map of this process.
func ownIDMap() (m idMap) {
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

// isUser reports whether two numbers mean the same user. listedUID is from a mount table, and insideUID is a number in
// this namespace.
func (m idMap) isUser(listedUID, insideUID int) bool {
	if listedUID == insideUID {
		return true
	}

	for _, r := range m {
		if listedUID >= r[1] && listedUID-r[1] < r[2] && insideUID == r[0]+listedUID-r[1] {
			return true
		}
	}

	return false
}
