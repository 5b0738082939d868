package graft

import (
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Redo makes the encoded operations of a graft again, and returns their number. contentOf returns the content of
// an inode of a view.
func (t *Target) Redo(changes []byte, contentOf func(view uint32, ino uint64) (*content.Content, error)) (n int, err error) {
	for d := wire.NewDecoder(changes); d.Remaining() > 0; n++ {
		c := DecodeOp(d, t.Epoch)
		if err := d.Err(); err != nil {
			return n, err
		}

		if c.ContentIno != 0 {
			if c.Node.Content, err = contentOf(c.ContentView, c.ContentIno); err != nil {
				return n, err
			}
		}

		if c.Kind == OpPut {
			t.NextIno = max(t.NextIno, c.Node.Ino+1)
		}

		t.reportRedone(&c)

		if err := c.Make(&t.Editor, func(parent uint64, name string, n *tree.Inode, last bool) {
			r := ReplacedName{Link: tree.Link{Parent: parent, Name: name}}
			if last {
				r.OldIno, r.WasDir = n.Ino, n.IsDir()
			} else {
				t.OnRedone(n.Ino) // its link count changed
			}

			t.notifyReplaced(r)
		}); err != nil {
			return n, err
		}
	}
	return n, nil
}

// reportRedone reports the inodes and names that an operation changes, except removed names.
func (t *Target) reportRedone(c *Op) {
	switch c.Kind {
	case OpSetAttrs:
		t.OnRedone(c.Node.Ino)
	case OpLink:
		t.OnRedone(c.Ino)
		fallthrough
	case OpPut:
		t.notifyReplaced(ReplacedName{Link: tree.Link{Parent: c.Parent, Name: c.Name}})
		fallthrough
	case OpRemove:
		t.OnRedone(c.Parent)
	}
}
