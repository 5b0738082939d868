package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/fusefs"
)

// NudgeCommand is the hidden command that must call Nudge.
const NudgeCommand = "nudge"

// Nudge does for watchers what a restore did. It reads, with a NUL after each: the mount
// point, its device, the time, the token of the replay, and the steps.
func Nudge(in io.Reader) error {
	runtime.LockOSThread() // the replay knows one thread
	r := bufio.NewReader(in)
	next := func() (string, error) {
		s, err := r.ReadString(0)
		return strings.TrimSuffix(s, "\x00"), err
	}
	var head [4]string
	for i := range head {
		var err error
		if head[i], err = next(); err != nil {
			return err
		}
	}
	ns, err := strconv.ParseInt(head[2], 10, 64)
	if err != nil {
		return err
	}
	root, err := unix.Open(head[0], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return err
	}
	if dev := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); dev != head[1] {
		return fmt.Errorf("%s is another file system now", head[0])
	}
	n := nudger{root: root, times: []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}}
	// Nothing is made or removed unless the daemon says that it will not be.
	n.replays = errors.Is(unix.Fstatat(root, head[3], &st, unix.AT_SYMLINK_NOFOLLOW), fusefs.Accepted)
	for {
		s, err := next()
		if err != nil || s == "" {
			return nil
		}
		n.step(s[:1], s[1:])
	}
}

// nudger takes the steps. Nobody is told of one that fails: what is watched may have
// changed again.
type nudger struct {
	root    int
	times   []unix.Timespec
	replays bool
}

// open never leads into another file system: what is done there would be done.
func (n *nudger) open(p string) (int, error) {
	return unix.Openat2(n.root, p, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
}

func (n *nudger) step(what, p string) {
	if what != stepTouch && n.replays && n.again(what, p) {
		return
	}
	if !n.touch(p) {
		n.touch(path.Dir(p)) // who watches looks into it
	}
}

// touch reports false if there is nothing to touch.
func (n *nudger) touch(p string) bool {
	fd, err := n.open(p)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	_ = unix.UtimesNanoAt(fd, "", n.times, unix.AT_EMPTY_PATH)
	return true
}

// again makes or removes a name. It reports false if it cannot: for a name that
// somebody has looked up meanwhile, or in a directory that may not be written to.
func (n *nudger) again(what, p string) bool {
	dir, err := n.open(path.Dir(p))
	if err != nil {
		return true
	}
	defer unix.Close(dir)
	name := path.Base(p)
	switch what {
	case stepUnlink:
		err = unix.Unlinkat(dir, name, 0)
	case stepRmdir:
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	case stepFile:
		err = unix.Mknodat(dir, name, unix.S_IFREG|0o600, 0)
	case stepDir:
		err = unix.Mkdirat(dir, name, 0o700)
	case stepSymlink:
		err = unix.Symlinkat("-", dir, name)
	}
	return !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.EACCES)
}
