package fusefs

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
)

func TestLookups(t *testing.T) {
	var l lookups
	a, b := live.Node(0, 2), live.Node(5, 2)
	if l.held(a) {
		t.Error("held before it was looked up")
	}
	l.add(a)
	l.add(a)
	l.add(b)
	if l.count() != 2 {
		t.Errorf("%d nodes are held", l.count())
	}
	if l.forget(a, 1) || !l.held(a) {
		t.Error("gone with one reference left")
	}
	if !l.forget(a, 1) || l.held(a) {
		t.Error("held without a reference")
	}
	if !l.held(b) {
		t.Error("another node went too")
	}
	if !l.forget(b, 9) || l.count() != 0 {
		t.Error("a forget of too many is not the end")
	}
}

func TestControlIDs(t *testing.T) {
	for _, view := range []uint32{0, 1, live.MaxView} {
		s, f := snapshotsID(view), forksID(view)
		if !isControl(s) || !isControl(f) || s == f {
			t.Errorf("view %d: %x, %x", view, uint64(s), uint64(f))
		}
		if uint32(s.Ino()) != view || uint32(f.Ino()) != view {
			t.Errorf("view %d is not found again", view)
		}
		if isControl(live.Node(view, live.MaxIno)) {
			t.Errorf("a node of view %d is one of the control tree", view)
		}
	}
}

func TestSeconds(t *testing.T) {
	for _, ns := range []int64{0, 1, -1, 1e9, -1e9, 1_700_000_000_123_456_789, -1_500_000_000} {
		sec, nsec := seconds(ns)
		if nsec >= 1e9 {
			t.Errorf("%d: fraction %d", ns, nsec)
		}
		if got := nanoseconds(sec, nsec); got != ns {
			t.Errorf("%d comes back as %d", ns, got)
		}
	}
	if got := nanoseconds(1<<62, 0); got <= 0 {
		t.Errorf("a time that is too late becomes %d", got)
	}
	late := int64(-1 << 62)
	if got := nanoseconds(uint64(late), 0); got >= 0 {
		t.Errorf("a time that is too early becomes %d", got)
	}
}

func TestSetAttr(t *testing.T) {
	in := &fuse.SetAttrIn{}
	in.Valid = fuse.FATTR_SIZE | fuse.FATTR_KILL_SUIDGID
	in.Size = 7
	if s := setAttr(in); s.Size == nil || *s.Size != 7 || !s.KillPriv || s.Mode != nil || s.Mtime != nil {
		t.Errorf("truncation: %+v", s)
	}
	in.Valid = fuse.FATTR_UID
	in.Uid = 5
	if s := setAttr(in); s.UID == nil || *s.UID != 5 || !s.KillPriv {
		t.Errorf("chown: %+v", s)
	}
	in.Valid = fuse.FATTR_MTIME
	in.Mtime, in.Mtimensec = 10, 20
	if s := setAttr(in); s.Mtime == nil || *s.Mtime != 10e9+20 || s.KillPriv {
		t.Errorf("utimens: %+v", s)
	}
	in.Valid = fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW
	if s := setAttr(in); s.Atime == nil || time.Since(time.Unix(0, *s.Atime)) > time.Minute {
		t.Errorf("touch: %+v", s)
	}
}

func TestRenderList(t *testing.T) {
	if got := string(renderList(nil)); got != "no snapshots\n" {
		t.Errorf("got %q", got)
	}
	at := time.Date(2024, 5, 6, 7, 8, 9, 10, time.UTC)
	got := string(renderList([]snapshot.Info{
		{Name: "v2", Created: at, Message: "two\nlines\there"},
		{Name: "v1", Created: at, ID: strings.Repeat("ab", 32)},
	}))
	want := "v2\t-\t2024-05-06T07:08:09Z\ttwo lines here\nv1\tabababababab\t2024-05-06T07:08:09Z\t\n"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNotices(t *testing.T) {
	pipe := make([]int, 2)
	if err := unix.Pipe2(pipe, unix.O_DIRECT|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	n := newNotifier(pipe[1], slog.New(slog.DiscardHandler))
	n.mayEpoch = func() bool { return true }
	done := make(chan struct{})
	go func() { n.run(); close(done) }()
	read := func() []byte {
		b := make([]byte, 4096)
		got, err := unix.Read(pipe[0], b)
		if err != nil {
			t.Fatal(err)
		}
		return b[:got]
	}
	go n.invalidate(live.Invalidation{
		Entries: []live.Entry{{Parent: 1, Name: "ab"}}, Inodes: []live.NodeID{1},
	})
	entry := []byte{35, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 0}
	if got := read(); !bytes.Equal(got, entry) {
		t.Errorf("entry notice % x", got)
	}
	inode := append([]byte{40, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8)...)
	inode = append(inode, bytes.Repeat([]byte{255}, 8)...)
	if got := read(); !bytes.Equal(got, inode) {
		t.Errorf("inode notice % x", got)
	}
	n.invalidate(live.Invalidation{Entries: slices.Repeat([]live.Entry{{Parent: 1, Name: "x"}}, manyEntries+1)})
	if got := read(); !bytes.Equal(got, []byte{16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("epoch notice % x", got)
	}
	n.close()
	<-done
}

func TestParseMountDevice(t *testing.T) {
	const info = `24 1 0:22 / /proc rw,relatime shared:2 - proc proc rw
90 24 0:50 / /mnt/a\040b rw,nosuid,nodev - fuse.amberfs /store rw,user_id=0
91 24 8:1 / /mnt/x rw - ext4 /dev/sda1 rw
92 24 0:51 / /mnt/x rw - fuse.amberfs /store rw
`
	for path, want := range map[string]string{"/mnt/a b": "0:50", "/mnt/x": "0:51", "/proc": "0:22", "/none": ""} {
		if dev := parseMountDevice(info, path); dev != want {
			t.Errorf("%s: %q", path, dev)
		}
	}
	for path, want := range map[string]bool{"/mnt": true, "/mnt/x": false, "/mn": false, "/proc": false} {
		if got := hasMountsBelow(info, path); got != want {
			t.Errorf("mounts below %s: %v", path, got)
		}
	}
}
