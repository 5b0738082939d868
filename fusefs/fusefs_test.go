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

func TestLookups(t *testing.T) {
	l := lookups{n: make(map[live.NodeID]uint64)}
	a, b := live.Node(0, 2), live.Node(5, 2)
	forget := func(id live.NodeID, n uint64) bool {
		gone, unknown := l.forget(id, n)
		if unknown {
			t.Error("a node is unknown that no daemon before handed over")
		}
		return gone
	}
	if l.held(a) {
		t.Error("held before it was looked up")
	}
	l.add(a, 1)
	l.add(a, 1)
	l.add(b, 1)
	if l.count() != 2 {
		t.Errorf("%d nodes are held", l.count())
	}
	if forget(a, 1) || !l.held(a) {
		t.Error("gone with one reference left")
	}
	if !forget(a, 1) || l.held(a) {
		t.Error("held without a reference")
	}
	if !l.held(b) {
		t.Error("another node went too")
	}
	if !forget(b, 9) || l.count() != 0 {
		t.Error("a forget of too many is not the end")
	}
}

// TestInheritedLookups: what a daemon before handed over is held until the kernel says that it
// does not hold it.
func TestInheritedLookups(t *testing.T) {
	l := lookups{n: make(map[live.NodeID]uint64)}
	old, unnamed, after := live.Node(0, 2), live.Node(0, 3), live.Node(0, 9)
	l.inherit(9, 1)
	if !l.held(old) || l.held(after) || l.held(live.Node(1, 2)) {
		t.Error("held are not exactly the nodes below the counters")
	}
	if gone, unknown := l.forget(old, 5); gone || !unknown || !l.held(old) {
		t.Error("a forget of unknown count was believed")
	}
	l.add(old, 1)
	n, via := l.sinceTakeover(old)
	l.add(old, 1)
	if n != 1 || via != 1 || l.release(old, n) || !l.held(old) {
		t.Error("released, though it was looked up meanwhile")
	}
	if n, _ = l.sinceTakeover(old); !l.release(old, n) || l.held(old) || l.count() != 0 {
		t.Error("still held, though the kernel does not have it")
	}
	l.add(unnamed, 1)
	l.add(unnamed, 2)
	if n, via = l.sinceTakeover(unnamed); via != several || !l.release(unnamed, n) {
		t.Error("one directory of two is named")
	}

	// The kernel was given the answer about a new node, and may not have got to it.
	made := live.Node(0, 4)
	l.disinherit(made)
	l.add(made, 1)
	if n, _ = l.sinceTakeover(made); l.release(made, n) || !l.held(made) {
		t.Error("released, though the kernel was given it")
	}
	if gone, unknown := l.forget(made, 1); !gone || unknown {
		t.Error("the count of a new node is not known")
	}
	l.add(unnamed, 1)
	if gone, unknown := l.forget(unnamed, 1); !gone || unknown {
		t.Error("not counted, though nothing of it is from a daemon before")
	}
}

// TestLookupByNumber: the kernel finds a node by its number, and overlayfs asks under the
// name "/" whether it is still that node.
func TestLookupByNumber(t *testing.T) {
	s, err := snapshot.Open(filepath.Join(t.TempDir(), "store"), snapshot.Options{Quiet: true})
	must.OK(t, err)
	defer s.Close()
	log := slog.New(slog.DiscardHandler)
	fs := newFilesystem(Options{Store: s, Logger: log, Control: control.Options{Service: service.New(service.Config{Store: s, Log: log})}}, &kernel{})
	f, err := s.Forest().Create(s.Main().Root(), "f", live.Create{Mode: unix.S_IFREG | 0o600})
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
	if s, ok := setAttr(in); !ok || s.Size == nil || *s.Size != 7 || !s.KillPriv || s.Mode != nil || s.Mtime != nil {
		t.Errorf("truncation: %+v", s)
	}
	in.Valid = fuse.FATTR_UID
	in.Uid = 5
	if s, ok := setAttr(in); !ok || s.UID == nil || *s.UID != 5 || !s.KillPriv {
		t.Errorf("chown: %+v", s)
	}
	in.Valid = fuse.FATTR_MTIME
	in.Mtime, in.Mtimensec = 10, 20
	if s, ok := setAttr(in); !ok || s.Mtime == nil || *s.Mtime != 10e9+20 || s.KillPriv {
		t.Errorf("utimens: %+v", s)
	}
	in.Valid = fuse.FATTR_ATIME | fuse.FATTR_ATIME_NOW
	before := time.Now().UnixNano()
	if s, ok := setAttr(in); !ok || s.Atime == nil || *s.Atime < before {
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
	many := live.Invalidation{Entries: slices.Repeat([]live.Entry{{Parent: 1, Name: "x"}}, manyEntries+1)}
	if n.replaced(manyEntries) {
		t.Error("all names are looked up again for few")
	}
	epoch := []byte{16, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	many.Epoch = n.replaced(len(many.Entries))
	if got := read(); !many.Epoch || !bytes.Equal(got, epoch) {
		t.Errorf("epoch notice % x", got)
	}
	n.invalidate(many, func() {})
	read() // of the directory
	if got := read(); !bytes.Equal(got, epoch) {
		t.Errorf("second epoch notice % x", got)
	}
	n.close()
}
