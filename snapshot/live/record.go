package live

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
	"github.com/amberfs/amberfs/snapshot/journal"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// The records of the forest in the journal. Types from FirstForeign on belong
// to the caller of Replay. See ../FORMAT.md.
const (
	recCreate journal.Type = 1 + iota
	recLink
	recUnlink
	recRename
	recSetAttr
	recOldWrite // what recWrite was before it had a checksum; it is only read
	recBlob     // bytes only
	recWriteAt  // refers to a blob
	recFallocate
	recClone
	recSetXattr
	recRemoveXattr
	recRelink
	recActor // of the records that follow

	// Steps of an edit; they are in blobs, with recUnlink and recLink. See Edit.Redo.
	recPut
	recSetAll

	recWrite // the bytes follow

	// FirstForeign is the first record type that the forest leaves alone.
	FirstForeign journal.Type = 64
)

// A record is one change. Which fields count depends on its kind.
type record struct {
	kind    journal.Type
	view    uint32
	time    int64
	ino     uint64
	parent  uint64
	parent2 uint64
	name    string
	name2   string
	flags   uint32 // rename flags, fallocate mode, or the bits of set
	create  Create // of a rename the whiteout
	set     SetAttr
	off     int64
	n       int64
	pos     int64 // of the bytes of a write in the journal
	payload int64 // where the payload of the record begins that they are in
	ino2    uint64
	off2    int64
	view2   uint32
	value   []byte
	kill    bool
	node    *tree.Inode
	content *content.Content
	depth   int // bound of how deep the view is nested, once a directory is made or moved
}

const (
	setMode = 1 << iota
	setUID
	setGID
	setSize
	setAtime
	setMtime
	setCtime
	setKill
)

func (r *record) encode(e *wire.Encoder) {
	e.Reset()
	e.Uvarint(uint64(r.view))
	e.Varint(r.time)
	r.encodeBody(e)
	if r.kind == recWrite {
		var sum [4]byte
		binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(e.Out(), castagnoli))
		e.Raw(sum[:])
	}
}

func (r *record) encodeBody(e *wire.Encoder) {
	switch r.kind {
	case recCreate:
		e.Uvarint(r.parent)
		e.String(r.name)
		e.Uvarint(r.ino)
		c := &r.create
		e.Uvarint(uint64(c.Mode))
		e.Uvarint(uint64(c.Caller.UID))
		e.Uvarint(uint64(c.Caller.GID))
		e.Uvarint(uint64(c.Rdev))
		e.String(c.Target)
		encodeXattrs(e, c.Xattrs)
		if r.makesDir() {
			e.Uvarint(uint64(r.depth))
		}
	case recLink:
		e.Uvarint(r.ino)
		e.Uvarint(r.parent)
		e.String(r.name)
	case recUnlink:
		e.Uvarint(r.parent)
		e.String(r.name)
	case recRename:
		e.Uvarint(r.parent)
		e.String(r.name)
		e.Uvarint(r.parent2)
		e.String(r.name2)
		e.Uvarint(uint64(r.flags))
		e.Uvarint(uint64(r.depth))
		if r.flags&unix.RENAME_WHITEOUT != 0 {
			e.Uvarint(r.ino)
			e.Uvarint(uint64(r.create.Caller.UID))
			e.Uvarint(uint64(r.create.Caller.GID))
		}
	case recSetAttr:
		e.Uvarint(r.ino)
		encodeSetAttr(e, &r.set)
	case recWrite, recWriteAt:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Bool(r.kill)
		if r.kind == recWriteAt {
			e.Uvarint(uint64(r.n))
			e.Uvarint(uint64(r.pos))
		}
	case recFallocate:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Uvarint(uint64(r.n))
		e.Uvarint(uint64(r.flags))
	case recClone:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Uvarint(uint64(r.view2))
		e.Uvarint(r.ino2)
		e.Uvarint(uint64(r.off2))
		e.Uvarint(uint64(r.n))
	case recSetXattr:
		e.Uvarint(r.ino)
		e.String(r.name)
		e.Bool(r.kill)
		e.Blob(r.value)
	case recRemoveXattr:
		e.Uvarint(r.ino)
		e.String(r.name)
	case recRelink, recPut:
		e.Uvarint(r.parent)
		e.String(r.name)
		r.encodeNode(e)
	case recSetAll:
		r.encodeNode(e)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bytes reports whether a record with a damaged payload lacks nothing but bytes of one file:
// it is a blob, or what comes before the bytes of a write has the right checksum.
func Bytes(t journal.Type, payload []byte) bool {
	if t == recBlob {
		return true
	}
	if t != recWrite {
		return false
	}
	_, _, err := decodeRecord(t, payload, 0)
	return err == nil
}

func (r *record) makesDir() bool { return r.create.Mode&unix.S_IFMT == unix.S_IFDIR }

func decodeRecord(kind journal.Type, payload []byte, epoch uint64) (*record, int, error) {
	d := wire.NewDecoder(payload)
	r := &record{kind: kind}
	r.view = uint32(d.Uint(MaxView))
	r.time = d.Varint()
	data := r.decode(d, epoch)
	switch kind {
	case recOldWrite:
		r.kind = recWrite
		return r, data, d.Err()
	case recWrite:
		sum := d.Raw(4)
		if d.Err() == nil && binary.LittleEndian.Uint32(sum) != crc32.Checksum(payload[:data], castagnoli) {
			d.Fail("the checksum of a write does not match")
		}
		r.n = int64(d.Remaining())
		return r, d.Offset(), d.Err()
	}
	return r, 0, d.Finish()
}

// decode reads what encodeBody wrote, and returns where that ends in a write.
func (r *record) decode(d *wire.Decoder, epoch uint64) (data int) {
	ino := func() uint64 { return d.Uint(MaxIno) }
	u32 := func() uint32 { return uint32(d.Uint(math.MaxUint32)) }
	switch r.kind {
	case recCreate:
		r.parent = ino()
		r.name = d.String()
		r.ino = ino()
		c := &r.create
		c.Mode = u32()
		c.Caller.UID = u32()
		c.Caller.GID = u32()
		c.Rdev = u32()
		c.Target = d.String()
		c.Xattrs = decodeXattrs(d)
		if r.makesDir() {
			r.depth = int(d.Uint(tree.MaxDepth - 1))
		}
	case recLink:
		r.ino = ino()
		r.parent = ino()
		r.name = d.String()
	case recUnlink:
		r.parent = ino()
		r.name = d.String()
	case recRename:
		r.parent = ino()
		r.name = d.String()
		r.parent2 = ino()
		r.name2 = d.String()
		r.flags = u32()
		r.depth = int(d.Uint(tree.MaxDepth - 1))
		if r.flags&unix.RENAME_WHITEOUT != 0 {
			r.ino = ino()
			r.create = Create{Mode: unix.S_IFCHR, Caller: Caller{UID: u32(), GID: u32()}}
		}
	case recSetAttr:
		r.ino = ino()
		decodeSetAttr(d, &r.set)
	case recOldWrite, recWrite, recWriteAt:
		r.ino = ino()
		r.off = d.Length()
		r.kill = d.Bool()
		if r.kind != recWriteAt {
			r.n = int64(d.Remaining())
			return d.Offset()
		}
		r.n = d.Length()
		r.pos = d.Length()
		r.payload = r.pos // of a blob, which has nothing before
	case recFallocate:
		r.ino = ino()
		r.off = d.Length()
		r.n = d.Length()
		r.flags = u32()
	case recClone:
		r.ino = ino()
		r.off = d.Length()
		r.view2 = uint32(d.Uint(MaxView))
		r.ino2 = ino()
		r.off2 = d.Length()
		r.n = d.Length()
	case recSetXattr:
		r.ino = ino()
		r.name = d.String()
		r.kill = d.Bool()
		r.value = bytes.Clone(d.Blob())
	case recRemoveXattr:
		r.ino = ino()
		r.name = d.String()
	case recRelink, recPut:
		r.parent = ino()
		r.name = d.String()
		r.decodeNode(d, epoch)
	case recSetAll:
		r.decodeNode(d, epoch)
	default:
		d.Fail("record type %d is unknown", r.kind)
	}
	return 0
}

func encodeXattrs(e *wire.Encoder, xs []tree.Xattr) {
	e.Uvarint(uint64(len(xs)))
	for _, x := range xs {
		e.String(x.Name)
		e.Blob(x.Value)
	}
}

func decodeXattrs(d *wire.Decoder) (xs []tree.Xattr) {
	for range d.Count(2) {
		xs = append(xs, tree.Xattr{Name: d.String(), Value: bytes.Clone(d.Blob())})
	}
	return xs
}

func encodeSetAttr(e *wire.Encoder, s *SetAttr) {
	var bits uint64
	bit := func(set bool, b uint64) {
		if set {
			bits |= b
		}
	}
	bit(s.Mode != nil, setMode)
	bit(s.UID != nil, setUID)
	bit(s.GID != nil, setGID)
	bit(s.Size != nil, setSize)
	bit(s.Atime != nil, setAtime)
	bit(s.Mtime != nil, setMtime)
	bit(s.Ctime != nil, setCtime)
	bit(s.KillPriv, setKill)
	e.Uvarint(bits)
	for _, p := range []*uint32{s.Mode, s.UID, s.GID} {
		if p != nil {
			e.Uvarint(uint64(*p))
		}
	}
	for _, p := range []*int64{s.Size, s.Atime, s.Mtime, s.Ctime} {
		if p != nil {
			e.Varint(*p)
		}
	}
}

func decodeSetAttr(d *wire.Decoder, s *SetAttr) {
	bits := d.Uint(setKill<<1 - 1)
	u32 := func(b uint64) *uint32 {
		if bits&b == 0 {
			return nil
		}
		v := uint32(d.Uint(math.MaxUint32))
		return &v
	}
	i64 := func(b uint64) *int64 {
		if bits&b == 0 {
			return nil
		}
		v := d.Varint()
		return &v
	}
	s.Mode, s.UID, s.GID = u32(setMode), u32(setUID), u32(setGID)
	s.Size, s.Atime, s.Mtime, s.Ctime = i64(setSize), i64(setAtime), i64(setMtime), i64(setCtime)
	s.KillPriv = bits&setKill != 0
}

// What follows the attributes of an inode.
const (
	noContent     = iota
	wholeContent  // r.content
	contentOfNode // that of another inode: view2 and ino2
)

// encodeNode writes an inode without its names and what is in it, if it is a directory.
func (r *record) encodeNode(e *wire.Encoder) {
	n := r.node
	for _, v := range []uint64{n.Ino, uint64(n.Mode), uint64(n.UID), uint64(n.GID), uint64(n.Rdev)} {
		e.Uvarint(v)
	}
	for _, t := range []int64{n.Atime, n.Mtime, n.Ctime, n.Btime} {
		e.Varint(t)
	}
	e.String(n.Target)
	encodeXattrs(e, n.Xattrs)
	switch {
	case r.content != nil:
		e.Byte(wholeContent)
		r.content.Encode(e)
	case r.ino2 != 0:
		e.Byte(contentOfNode)
		e.Uvarint(uint64(r.view2))
		e.Uvarint(r.ino2)
	default:
		e.Byte(noContent)
	}
}

func (r *record) decodeNode(d *wire.Decoder, epoch uint64) {
	u32 := func() uint32 { return uint32(d.Uint(math.MaxUint32)) }
	n := &tree.Inode{Ino: d.Uint(MaxIno), Mode: u32(), UID: u32(), GID: u32(), Rdev: u32()}
	n.Atime, n.Mtime, n.Ctime, n.Btime = d.Varint(), d.Varint(), d.Varint(), d.Varint()
	n.Target, n.Nlink = d.String(), 1
	if n.IsDir() {
		n.Nlink = 2
	}
	n.Xattrs = decodeXattrs(d)
	switch kind := d.Byte(); kind {
	case noContent:
	case wholeContent:
		var err error
		if n.Content, err = content.Decode(d, epoch); err != nil {
			d.Fail("%v", err)
		}
	case contentOfNode:
		r.view2, r.ino2 = uint32(d.Uint(MaxView)), d.Uint(MaxIno)
	default:
		d.Fail("content of kind %d is unknown", kind)
	}
	r.node = n
}
