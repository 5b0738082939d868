package fusefs

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/amberfs/amberfs/fusefs/control"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/tests/must"
)

// TestLookupByNumber: the kernel finds a node by its number, and overlayfs looks up the name "/" to find out whether
// the node still exists.
func TestLookupByNumber(t *testing.T) {
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	log := slog.New(slog.DiscardHandler)
	fs := newFilesystem(Options{Store: s, Logger: log, Control: control.Options{Service: service.New(service.Config{Store: s, Log: log})}}, &kernel{})
	f, err := s.Forest().Create(s.Main().Root(), "f", live.NewNode{Mode: unix.S_IFREG | 0o600})
	must.OK(t, err)
	for _, name := range []string{".", "/"} {
		var out fuse.EntryOut
		if st := fs.Lookup(nil, &fuse.InHeader{NodeId: uint64(f.ID)}, name, &out); st != fuse.OK || out.NodeId != uint64(f.ID) {
			t.Errorf("%q of node %x: %v, node %x", name, f.ID, st, out.NodeId)
		}
	}
}

func TestSetAttr(t *testing.T) {
	in := &fuse.SetAttrIn{}
	in.Valid = fuse.FATTR_SIZE | fuse.FATTR_KILL_SUIDGID
	in.Size = 7
	if s, ok := attrsToSet(in); !ok || s.Size == nil || *s.Size != 7 || !s.KillPriv || s.Mode != nil || s.Mtime != nil {
		t.Errorf("truncation: %+v", s)
	}
	in.Valid = fuse.FATTR_UID
	in.Uid = 5
	if s, ok := attrsToSet(in); !ok || s.UID == nil || *s.UID != 5 || !s.KillPriv {
		t.Errorf("chown: %+v", s)
	}
	in.Valid = fuse.FATTR_MTIME
	in.Mtime, in.Mtimensec = 10, 20
	if s, ok := attrsToSet(in); !ok || s.Mtime == nil || *s.Mtime != 10e9+20 || s.KillPriv {
		t.Errorf("utimens: %+v", s)
	}
	in.Valid = fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW
	before := time.Now().UnixNano()
	if s, ok := attrsToSet(in); !ok || s.Atime == nil || *s.Atime < before {
		t.Errorf("touch: %+v", s)
	}
}

func TestNotices(t *testing.T) {
	pipe := make([]int, 2)
	must.OK(t, unix.Pipe2(pipe, unix.O_DIRECT|unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	n := &notifier{log: slog.New(slog.DiscardHandler), fd: pipe[1]}
	n.mayUseEpoch = func() bool { return true }
	read := func() []byte {
		b := make([]byte, 4096)
		got, err := unix.Read(pipe[0], b)
		must.OK(t, err)
		return b[:got]
	}
	go n.invalidate(live.Invalidation{
		Entries: []live.Entry{{Parent: 1, Name: "ab"}}, Inodes: []live.NodeID{1},
	}, func() {})
	entry := []byte{35, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b', 0}
	if got := read(); !bytes.Equal(got, entry) {
		t.Errorf("entry notice % x", got)
	}
	inode := append([]byte{40, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}, make([]byte, 8)...)
	inode = append(inode, bytes.Repeat([]byte{255}, 8)...)
	if got := read(); !bytes.Equal(got, inode) {
		t.Errorf("inode notice % x", got)
	}
	many := live.Invalidation{Entries: slices.Repeat([]live.Entry{{Parent: 1, Name: "x"}}, maxEntryNotices+1)}
	if n.onReplaced(maxEntryNotices) {
		t.Error("all names are looked up again for few")
	}
	epoch := []byte{16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	many.AllNamesExpire = n.onReplaced(len(many.Entries))
	if got := read(); !many.AllNamesExpire || !bytes.Equal(got, epoch) {
		t.Errorf("epoch notice % x", got)
	}
	n.invalidate(many, func() {})
	read() // of the directory
	if got := read(); !bytes.Equal(got, epoch) {
		t.Errorf("second epoch notice % x", got)
	}
	n.close()
}
