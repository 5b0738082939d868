package graft_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

func encoded(c graft.Op) []byte {
	e := wire.NewEncoder(nil)
	c.Encode(e)
	return bytes.Clone(e.Bytes())
}

// TestChangesComeBack: a change comes back as it was written, and none that is cut short.
func TestChangesComeBack(t *testing.T) {
	file := newWorld(t, rand.NewPCG(0, 1)).newTree()
	for _, c := range []graft.Op{
		{Kind: graft.OpLink, Parent: 1, Name: "a\n\xff", Ino: 77},
		{Kind: graft.OpRemove, Parent: 9, Name: "u"},
		{Kind: graft.OpPut, Parent: 1, Name: "p", Node: &tree.Inode{Ino: 7, Mode: unix.S_IFLNK | 0o777, Rdev: 9, Target: "x"}, ContentView: 3, ContentIno: 5},
		{Kind: graft.OpPut, Parent: 1, Name: "p", Node: &tree.Inode{Ino: 7, Mode: unix.S_IFREG | 0o600, Content: file.content("text")}, ContentView: 4, ContentIno: 9},
		{Kind: graft.OpSetAttrs, Node: &tree.Inode{Ino: 8, Mode: unix.S_IFDIR | 0o700, Mtime: -5, Xattrs: []tree.Xattr{{Name: "user.a", Value: []byte{1}}}}},
	} {
		b := encoded(c)
		d := wire.NewDecoder(b)
		got := graft.DecodeOp(d, 1)
		if err := d.Finish(); err != nil {
			t.Errorf("kind %d: %v", c.Kind, err)
			continue
		}
		if stored := c.Node != nil && c.Node.Content != nil; stored != (got.ContentIno != 0) {
			t.Errorf("kind %d: the contents are those of inode %d", c.Kind, got.ContentIno)
		}
		if c.Node != nil {
			got.Node.Content = c.Node.Content
		}
		if again := encoded(got); !bytes.Equal(again, b) {
			t.Errorf("kind %d: %x comes back as %x", c.Kind, b, again)
		}
		for i := range b {
			d := wire.NewDecoder(b[:i])
			if graft.DecodeOp(d, 1); d.Err() == nil {
				t.Errorf("kind %d: cut to %d of %d bytes it is accepted", c.Kind, i, len(b))
			}
		}
	}
}
