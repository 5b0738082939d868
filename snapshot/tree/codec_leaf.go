package tree

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// The record of an inode with tens of thousands of names or megabytes of extended attributes is not
// stored in the leaf, because the leaf is also read for its other inodes. Such a long record is cut
// into pieces, each of which is an object, and the leaf has the hashes of the pieces.
const (
	maxRecordSize = 4 << 10 // bytes of a record in the leaf
	maxPieceSize  = 1 << 20 // bytes of a piece of a long record
)

// encodeTableLeaf writes a leaf whose inodes are all sealed. It stores the pieces of long records in
// objects.
func encodeTableLeaf(e *wire.Encoder, l *tableLeaf, objects content.ObjectStore) error {
	e.Header(wire.KindTableLeaf)
	e.Uvarint(l.index)
	var m uint64
	for i := range tableFanout {
		if l.has(i) {
			m |= 1 << i
		}
	}

	e.Raw(binary.LittleEndian.AppendUint64(nil, m))
	var rec wire.Encoder

	for i := range tableFanout {
		rec.Reset()
		n := l.cell(i)
		if n == nil {
			if l.has(i) {
				encodeRecord(e, l.record(i), l.long&(1<<i) != 0)
			}
			continue
		}

		encodeInode(&rec, n)

		if rec.Len() <= maxRecordSize {
			encodeRecord(e, rec.Bytes(), false)
			continue
		}

		pieces, err := putRecord(rec.Bytes(), objects)
		if err != nil {
			return err
		}
		encodeRecord(e, pieces, true)
	}

	return nil
}

// encodeRecord writes the length of a record, and then the record or, for a long record, the hashes of its
// pieces. The lowest bit of the length is set for a long record.
func encodeRecord(e *wire.Encoder, rec []byte, long bool) {
	n := uint64(len(rec)) << 1
	if long {
		n |= 1
	}
	e.Uvarint(n)
	e.Raw(rec)
}

// putRecord stores a record in pieces and returns their hashes, one after the other.
func putRecord(rec []byte, objects content.ObjectStore) ([]byte, error) {
	var hashes []byte
	var e wire.Encoder

	for len(rec) > 0 {
		n := min(len(rec), maxPieceSize)
		e.Reset()
		e.Header(wire.KindRecord)
		e.Raw(rec[:n])
		h, err := objects.Put(cas.KindTree, e.Bytes())
		if err != nil {
			return nil, fmt.Errorf("write a part of an inode: %w", err)
		}

		hashes = append(hashes, h[:]...)
		rec = rec[n:]
	}

	return hashes, nil
}

// loadInode returns the inode of a long record whose pieces have these hashes. It caches the inode, because a
// directory in which tens of thousands of names lead to the inode needs it for each name.
func loadInode(src *Source, ino uint64, hashes []byte) (*Inode, error) {
	key := cas.Sum(hashes)
	if n, ok := src.inodes.Get(key); ok && n.Ino == ino {
		return n, nil
	}

	rec, err := loadRecord(src, hashes)
	if err != nil {
		return nil, err
	}

	n, err := decodeInode(ino, rec)
	if err != nil {
		return nil, err
	}

	src.inodes.Put(key, n, int64(len(rec)+len(n.Links)*int(unsafe.Sizeof(Link{}))))

	return n, nil
}

// loadRecord returns the long record whose pieces have these hashes.
func loadRecord(src *Source, hashes []byte) ([]byte, error) {
	var rec []byte
	for ; len(hashes) > 0; hashes = hashes[hashSize:] {
		h := cas.Hash(hashes)
		piece, err := src.Files.Object(h)
		if err != nil {
			return nil, fmt.Errorf("load inode record %s: %w", h, err)
		}

		d := wire.NewDecoder(piece)
		if k := d.Header(); k != wire.KindRecord {
			d.Fail("kind %d is no inode record", k)
		}
		if d.Err() != nil {
			return nil, fmt.Errorf("load inode record %s: %w", h, d.Err())
		}
		rec = append(rec, d.Raw(d.Remaining())...)
	}

	return rec, nil
}

// pieces returns the hashes of the pieces of the record in slot i. It returns nil if the record is not a long one.
func (l *tableLeaf) pieces(i int) (hs []cas.Hash) {
	if l.long&(1<<i) != 0 {
		hs = splitHashes(l.record(i))
	}
	return hs
}

func splitHashes(b []byte) (hs []cas.Hash) {
	for ; len(b) > 0; b = b[hashSize:] {
		hs = append(hs, cas.Hash(b))
	}
	return hs
}

func decodeTableLeaf(d *wire.Decoder, raw []byte) *tableLeaf {
	l := &tableLeaf{raw: raw, index: d.Uint(MaxIno / tableFanout)}
	mb := d.Raw(8)
	if mb == nil {
		return nil
	}

	m := binary.LittleEndian.Uint64(mb)
	if m == 0 {
		d.Fail("table leaf with no inode")
	}
	if len(raw) > math.MaxUint32 {
		d.Fail("table leaf of %d bytes", len(raw))
	}

	for i := range tableFanout {
		if m&(1<<i) == 0 {
			continue
		}
		n := d.Uvarint()
		long := n&1 != 0
		if n >>= 1; n == 0 || n > uint64(d.Remaining()) || long && n%uint64(hashSize) != 0 {
			d.Fail("inode record of %d bytes", n)
			return nil
		}

		if long {
			l.long |= 1 << i
		}

		l.lo[i] = uint32(d.Offset())
		l.hi[i] = l.lo[i] + uint32(n)
		d.Raw(int(n))
	}

	return l
}
