package graft

import (
	"math"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// maxView is the largest view: in a live.NodeID, the bits of the view are above the bits of the
// inode.
const maxView = 1<<(64-tree.InoBits) - 2

// Encode writes an operation. If the contents of its node are not sealed, it writes ContentIno and ContentView in
// place of the contents.
func (c *Op) Encode(e *wire.Encoder) {
	e.Byte(byte(c.Kind))
	if c.Kind == OpLink {
		e.Uvarint(c.Ino)
	}

	if c.Kind != OpSetAttrs {
		e.Uvarint(c.Parent)
		e.String(c.Name)
	}
	if c.Node == nil {
		return
	}

	switch sealed := c.Node.Content.SealedMap(); {
	case sealed == nil && c.ContentIno != 0:
		encodeAttrs(e, c.Node)
		e.Byte(contentOfNode)
		e.Uvarint(uint64(c.ContentView))
		e.Uvarint(c.ContentIno)

	case c.Node.Content == nil:
		encodeNode(e, c.Node, nil)
	default:
		encodeNode(e, c.Node, content.FromChunkMap(sealed))
	}
}

// DecodeOp reads an operation that Encode wrote. If c.ContentIno is not 0, the caller must set the contents of
// c.Node to the contents of the inode c.ContentIno in the view c.ContentView.
func DecodeOp(d *wire.Decoder, epoch uint64) (c Op) {
	switch c.Kind = Kind(d.Byte()); c.Kind {
	case OpLink:
		c.Ino = d.Uint(tree.MaxIno)
	case OpRemove, OpPut, OpSetAttrs:
	default:
		d.Fail("a step of type %d is unknown", c.Kind)
	}

	if c.Kind != OpSetAttrs {
		c.Parent = d.Uint(tree.MaxIno)
		c.Name = d.String()
	}

	if c.Kind == OpPut || c.Kind == OpSetAttrs {
		c.Node, c.ContentView, c.ContentIno = decodeNode(d, epoch)
	}

	return c
}

// Kinds of content in an encoded inode, after its attributes.
const (
	noContent     = iota
	wholeContent  // the content follows
	contentOfNode // a view and an inode with the content follow
)

// encodeNode writes an inode without its names and directory entries, with the content c, which
// may be nil.
func encodeNode(e *wire.Encoder, n *tree.Inode, c *content.Content) {
	encodeAttrs(e, n)

	if c == nil {
		e.Byte(noContent)
		return
	}

	e.Byte(wholeContent)
	c.Encode(e)
}

func encodeAttrs(e *wire.Encoder, n *tree.Inode) {
	for _, v := range []uint64{n.Ino, uint64(n.Mode), uint64(n.UID), uint64(n.GID), uint64(n.Rdev)} {
		e.Uvarint(v)
	}
	for _, t := range []int64{n.Atime, n.Mtime, n.Ctime, n.Btime} {
		e.Varint(t)
	}

	e.String(n.Target)
	tree.EncodeXattrs(e, n.Xattrs)
}

func decodeNode(d *wire.Decoder, epoch uint64) (n *tree.Inode, view uint32, from uint64) {
	u32 := func() uint32 { return uint32(d.Uint(math.MaxUint32)) }
	n = &tree.Inode{Ino: d.Uint(tree.MaxIno), Mode: u32(), UID: u32(), GID: u32(), Rdev: u32()}
	n.Atime, n.Mtime, n.Ctime, n.Btime = d.Varint(), d.Varint(), d.Varint(), d.Varint()
	n.Target, n.Nlink = d.String(), 1
	if n.IsDir() {
		n.Nlink = 2
	}

	n.Xattrs = tree.DecodeXattrs(d)

	switch kind := d.Byte(); kind {
	case noContent:
	case wholeContent:
		var err error
		if n.Content, err = content.Decode(d, epoch); err != nil {
			d.Fail("%v", err)
		}

	case contentOfNode:
		if view, from = uint32(d.Uint(maxView)), d.Uint(tree.MaxIno); from == 0 {
			d.Fail("content of inode 0")
		}
	default:
		d.Fail("content of kind %d is unknown", kind)
	}

	return n, view, from
}

// A JournalSpan is the place of a blob's payload in the journal.
type JournalSpan struct {
	Pos int64 `json:"pos"`
	Len int   `json:"len"`
}
