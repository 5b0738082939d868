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

// The types of the forest's records in the journal. Types from FirstForeign on belong
// to the caller of Replay. See ../FORMAT.md.
const (
	recCreate journal.Type = 1 + iota
	recLink
	recUnlink
	recRename
	recSetAttr
	_
	recBlob    // bytes to which a later record refers
	recWriteAt // a write whose bytes are in a blob
	recFallocate
	recClone
	recSetXattr
	recRemoveXattr
	_
	recActor // the actor of the changes in the following records

	_ // graft.OpPut, which is used in the blobs of edits
	_ // graft.OpSetAttrs, which is used in the blobs of edits

	recWrite // a write whose bytes are in the record
	recMount // a connection to the kernel begins

	// FirstForeign is the first record type that does not belong to the forest.
	FirstForeign journal.Type = 64
)

// A record is one change. Its kind determines which fields are used.
type record struct {
	kind       journal.Type
	view       uint32
	time       int64
	request    uint64 // see hasRequest
	ino        uint64
	parent     uint64
	name       string
	newLink    tree.Link // the new name of a rename
	flags      uint32    // rename flags or fallocate mode
	create     NewNode   // the new inode; of a rename the whiteout
	setAttr    SetAttr
	off        int64
	length     int64
	dataPos    int64       // journal position of the bytes of a write
	payloadPos int64       // journal position of the payload that contains the bytes of the write
	cloneFrom  cloneSource // for recClone: the source of the bytes
	value      []byte      // the value of an extended attribute
	clearPriv  bool        // clear set-user-ID, set-group-ID and capabilities; in recSetXattr clear only set-group-ID
	depth      int         // State.Depth of the view after a directory was created or moved
}

// A cloneSource is the file and the range from which a recClone copies bytes.
type cloneSource struct {
	view uint32
	ino  uint64
	off  int64
}

// encode encodes the record except for the bytes of a write, which follow the encoding.
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
		binary.LittleEndian.PutUint32(sum[:], crc32.Checksum(e.Bytes(), castagnoli))
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
		e.Uvarint(r.newLink.Parent)
		e.String(r.newLink.Name)
		e.Uvarint(uint64(r.flags))
		e.Uvarint(uint64(r.depth))

		if r.flags&unix.RENAME_WHITEOUT != 0 {
			e.Uvarint(r.ino)
			e.Uvarint(uint64(r.create.Caller.UID))
			e.Uvarint(uint64(r.create.Caller.GID))
		}

	case recSetAttr:
		e.Uvarint(r.ino)
		r.setAttr.Encode(e)
	case recWrite, recWriteAt:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Bool(r.clearPriv)
		if r.kind == recWriteAt {
			e.Uvarint(uint64(r.length))
			e.Uvarint(uint64(r.dataPos))
		}

	case recFallocate:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Uvarint(uint64(r.length))
		e.Uvarint(uint64(r.flags))

	case recClone:
		e.Uvarint(r.ino)
		e.Uvarint(uint64(r.off))
		e.Uvarint(uint64(r.cloneFrom.view))
		e.Uvarint(r.cloneFrom.ino)
		e.Uvarint(uint64(r.cloneFrom.off))
		e.Uvarint(uint64(r.length))

	case recSetXattr:
		e.Uvarint(r.ino)
		e.String(r.name)
		e.Bool(r.clearPriv)
		e.Blob(r.value)

	case recRemoveXattr:
		e.Uvarint(r.ino)
		e.String(r.name)
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// DamagesOnlyBytes reports whether damage of a record's payload affects only the bytes of one file, see
// journal.Options.KeepDamaged. It does if the record is a blob. It also does if the record is a write, and the part
// of the payload before the bytes is intact, which this part's own checksum shows.
func DamagesOnlyBytes(t journal.Type, payload []byte) bool {
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

// decodeRecord decodes a record. dataOffset is the offset of the bytes of a recWrite in the payload,
// else 0.
func decodeRecord(kind journal.Type, payload []byte) (r *record, dataOffset int, err error) {
	d := wire.NewDecoder(payload)
	r = &record{kind: kind}
	r.view = uint32(d.Uint(MaxView))
	r.time = d.Varint()
	if hasRequest(kind) {
		r.request = d.Uvarint()
	}

	r.decodeBody(d)
	if kind != recWrite {
		return r, 0, d.Finish()
	}

	head := payload[:d.Offset()]
	sum := d.Raw(4)
	if d.Err() == nil && binary.LittleEndian.Uint32(sum) != crc32.Checksum(head, castagnoli) {
		d.Fail("the checksum of a write does not match")
	}

	r.length = int64(d.Remaining())
	return r, d.Offset(), d.Err()
}

// decodeBody reads the encoding of encodeBody.
func (r *record) decodeBody(d *wire.Decoder) {
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
		r.newLink.Parent = ino()
		r.newLink.Name = d.String()
		r.flags = u32()
		r.depth = int(d.Uint(tree.MaxDepth - 1))
		if r.flags&unix.RENAME_WHITEOUT != 0 {
			r.ino = ino()
			r.create = NewNode{Mode: unix.S_IFCHR, Caller: actors.Caller{UID: u32(), GID: u32()}}
		}

	case recSetAttr:
		r.ino = ino()
		r.setAttr.Decode(d)
	case recWrite, recWriteAt:
		r.ino = ino()
		r.off = d.Length()
		r.clearPriv = d.Bool()
		if r.kind == recWriteAt {
			r.length = d.Length()
			r.dataPos = d.Length()
			r.payloadPos = r.dataPos // the payload of a blob consists of the bytes
		}

	case recFallocate:
		r.ino = ino()
		r.off = d.Length()
		r.length = d.Length()
		r.flags = u32()

	case recClone:
		r.ino = ino()
		r.off = d.Length()
		r.cloneFrom.view = uint32(d.Uint(MaxView))
		r.cloneFrom.ino = ino()
		r.cloneFrom.off = d.Length()
		r.length = d.Length()

	case recSetXattr:
		r.ino = ino()
		r.name = d.String()
		r.clearPriv = d.Bool()
		r.value = bytes.Clone(d.Blob())

	case recRemoveXattr:
		r.ino = ino()
		r.name = d.String()
	default:
		d.Fail("record type %d is unknown", r.kind)
	}
}
