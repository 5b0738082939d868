package live

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/snapshot/actors"
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
	_
	recBlob    // bytes only
	recWriteAt // refers to a blob
	recFallocate
	recClone
	recSetXattr
	recRemoveXattr
	_
	recActor // of the records that follow

	_ // graft.Put: changes of an edit are in blobs
	_ // graft.SetAttrs

	recWrite // the bytes follow
	recMount // a connection to the kernel begins

	// FirstForeign is the first record type that the forest leaves alone.
	FirstForeign journal.Type = 64
)

// A record is one change. Which fields count depends on its kind.
type record struct {
	kind    journal.Type
	view    uint32
	time    int64
	request uint64 // see hasRequest
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
	depth   int // bound of how deep the view is nested, once a directory is made or moved
}

func (r *record) encode(e *wire.Encoder) {
	e.Reset()
	e.Uvarint(uint64(r.view))
	e.Varint(r.time)
	if hasRequest(r.kind) {
		e.Uvarint(r.request)
	}
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
		tree.EncodeXattrs(e, c.Xattrs)
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
		r.set.Encode(e)
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
	_, _, err := decodeRecord(t, payload)
	return err == nil
}

func (r *record) makesDir() bool { return r.create.Mode&unix.S_IFMT == unix.S_IFDIR }

func decodeRecord(kind journal.Type, payload []byte) (*record, int, error) {
	d := wire.NewDecoder(payload)
	r := &record{kind: kind}
	r.view = uint32(d.Uint(MaxView))
	r.time = d.Varint()
	if hasRequest(kind) {
		r.request = d.Uvarint()
	}
	data := r.decode(d)
	if kind == recWrite {
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
func (r *record) decode(d *wire.Decoder) (data int) {
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
		c.Xattrs = tree.DecodeXattrs(d)
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
			r.create = Create{Mode: unix.S_IFCHR, Caller: actors.Caller{UID: u32(), GID: u32()}}
		}
	case recSetAttr:
		r.ino = ino()
		r.set.Decode(d)
	case recWrite, recWriteAt:
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
	default:
		d.Fail("record type %d is unknown", r.kind)
	}
	return 0
}
