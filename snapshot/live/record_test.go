package live

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func samples() []*record {
	mode, size, mtime := uint32(0o4755), int64(1<<40), int64(-5)
	return []*record{
		{kind: recCreate, parent: 1, name: "a\n\xff", ino: 77, create: NewNode{
			Mode: unix.S_IFLNK | 0o777, Target: "..", Caller: actors.Caller{UID: 7, GID: 8}, Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte{0}}},
		}},
		{kind: recCreate, parent: 1, ino: 79, create: NewNode{Mode: unix.S_IFREG | 0o600}},
		{kind: recLink, ino: 5, parent: 9, name: "l"},
		{kind: recUnlink, parent: 9, name: "u"},
		{kind: recRename, parent: 9, name: "o", newLink: tree.Link{Parent: 10, Name: "n"}, flags: unix.RENAME_EXCHANGE},
		{kind: recRename, parent: 9, name: "o", newLink: tree.Link{Parent: 10, Name: "n"}, flags: unix.RENAME_WHITEOUT, ino: 78, create: NewNode{Caller: actors.Caller{UID: 7, GID: 8}}},
		{kind: recSetAttr, ino: 5, setAttr: SetAttr{Mode: &mode, Size: &size, Mtime: &mtime, KillPriv: true}},
		{kind: recWriteAt, ino: 5, off: 1 << 33, length: 1 << 20, dataPos: 12345, clearPriv: true},
		{kind: recFallocate, ino: 5, off: 3, length: 4, flags: unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE},
		{kind: recClone, ino: 5, off: 3, cloneFrom: cloneSource{9, 11, 8}, length: 4096},
		{kind: recSetXattr, ino: 5, name: "user.x", value: []byte("v"), clearPriv: true},
		{kind: recRemoveXattr, ino: 5, name: "user.x"},
	}
}

func encoded(r *record) []byte {
	e := wire.NewEncoder(nil)
	r.encode(e)
	return bytes.Clone(e.Bytes())
}

func TestRecordsComeBack(t *testing.T) {
	for _, r := range samples() {
		r.view, r.time, r.request = 3, 1e18, 1<<62
		if !hasRequest(r.kind) {
			r.request = 0
		}
		b := encoded(r)
		got, _, err := decodeRecord(r.kind, b)
		if err != nil {
			t.Fatalf("type %d: %v", r.kind, err)
		}
		if got.request != r.request {
			t.Errorf("type %d: request %d comes back as %d", r.kind, r.request, got.request)
		}
		if again := encoded(got); !bytes.Equal(again, b) {
			t.Errorf("type %d: %x comes back as %x", r.kind, b, again)
		}
		for i := range b {
			if _, _, err := decodeRecord(r.kind, b[:i]); err == nil {
				t.Errorf("type %d: cut to %d of %d bytes it is accepted", r.kind, i, len(b))
			}
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, r := range samples() {
		f.Add(uint8(r.kind), encoded(r))
	}
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		r, _, err := decodeRecord(journal.Type(kind), b)
		if err != nil || r.kind == recWrite {
			return
		}
		if again := encoded(r); !bytes.Equal(again, b) {
			t.Errorf("%x is accepted and comes back as %x", b, again)
		}
	})
}
