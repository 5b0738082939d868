package history_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A watch hears what inotify(7) says about some paths.
type watch struct {
	fd    int
	names map[int32]string
	heard []string // path:what
}

func newWatch(t *testing.T, m *harness.Mount, paths ...string) *watch {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	must.OK(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	w := &watch{fd: fd, names: map[int32]string{}}
	for _, p := range paths {
		wd, err := unix.InotifyAddWatch(fd, m.Path(p), unix.IN_MODIFY|unix.IN_DELETE_SELF|unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVE)
		must.OK(t, err)
		w.names[int32(wd)] = p
	}
	return w
}

// has reads what came in, and reports whether all of these were heard by now.
func (w *watch) has(want ...string) bool {
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Read(w.fd, buf)
		if err != nil || n <= 0 {
			break
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			size := binary.NativeEndian.Uint32(b[12:])
			name := string(bytes.TrimRight(b[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], "\x00"))
			b = b[unix.SizeofInotifyEvent+size:]
			var what string
			switch {
			case mask&unix.IN_CREATE != 0:
				what = "create"
			case mask&unix.IN_DELETE != 0:
				what = "delete"
			case mask&unix.IN_MODIFY != 0:
				what = "modify"
			case mask&unix.IN_DELETE_SELF != 0:
				what = "delete-self"
			default:
				continue
			}
			if mask&unix.IN_ISDIR != 0 {
				what += "-dir"
			}
			w.heard = append(w.heard, strings.TrimSuffix(w.names[wd]+"/"+name, "/")+":"+what)
		}
	}
	for _, s := range want {
		if !slices.Contains(w.heard, s) {
			return false
		}
	}
	return true
}

// Who watches directories or files hears of a restore, and nothing else than
// the restore has happened.
func TestWatchersHearOfARestore(t *testing.T) {
	m := harness.New(t)
	write(t, m.Path("changed"), "one")
	write(t, m.Path("deleted"), "one")
	must.OK(t, os.Mkdir(m.Path("sub"), 0o755))
	write(t, m.Path("sub", "f"), "one")
	write(t, m.Path("sub", "same"), "one")

	must.OK(t, os.Mkdir(m.Path("olddir"), 0o755))
	must.OK(t, os.Symlink("changed", m.Path("link")))
	before := harness.ReadTree(t, m.Dir)
	capture(t, m, "v1")
	must.OK(t, os.Remove(m.Path("olddir")))
	must.OK(t, os.Remove(m.Path("link")))
	write(t, m.Path("changed"), "two")
	write(t, m.Path("sub", "f"), "two")
	must.OK(t, os.Remove(m.Path("deleted")))
	write(t, m.Path("new"), "new")
	must.OK(t, os.MkdirAll(m.Path("newdir", "below"), 0o755))
	write(t, m.Path("newdir", "below", "f"), "new")
	w := newWatch(t, m, ".", "sub", "new", "newdir", "newdir/below", "changed")

	restore(t, m, "v1")
	harness.Eventually(t, "watchers hear of the restore", func() bool {
		return w.has(".:modify-dir", "./changed:modify", "./deleted:modify", "./olddir:modify-dir", "./link:modify", "sub/f:modify",
			"new:delete-self", "changed:delete-self")
	})
	harness.CheckSameTree(t, "restored", before, harness.ReadTree(t, m.Dir))
	if slices.Contains(w.heard, "sub/same:modify") {
		t.Error("an unchanged file was said to be modified")
	}
	write(t, m.Path("marker"), "") // events are logged in the order of the changes
	harness.Eventually(t, "the log is complete", func() bool {
		return strings.Contains(read(t, m.Path(".snapshots", "log")), `"marker"`)
	})
	must.OK(t, os.Remove(m.Path("marker")))
	for line := range strings.Lines(read(t, m.Path(".snapshots", "log"))) {
		if strings.Contains(line, `"modified"`) && strings.Contains(line, "nudge") {
			t.Errorf("telling the watchers is in the event log: %s", line)
		}
	}
	if list := read(t, m.Path(".snapshots", "stat@v1")); list != "" {
		t.Errorf("after the restore there are changes: %s", list)
	}

	// Some paths of a fork, at its own place.
	must.OK(t, os.Mkdir(m.Path(".forks", "idea"), 0o755))
	write(t, m.Path(".forks", "idea", "sub", "f"), "three")
	w = newWatch(t, m, ".forks/idea/sub", "sub")
	must.OK(t, os.WriteFile(m.Path(".forks", "idea", ".snapshots", "restore"), []byte("base sub/f\n"), 0o644))
	harness.Eventually(t, "watchers in a fork hear of it", func() bool { return w.has(".forks/idea/sub/f:modify") })
	if slices.Contains(w.heard, "sub/f:modify") {
		t.Error("watchers of the parent heard of a restore of the fork")
	}
}
