package tree

import (
	"encoding/binary"
	"math/bits"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

const hashSize = len(cas.Hash{})

func decodeHash(d *wire.Decoder) (h cas.Hash) {
	copy(h[:], d.Raw(hashSize))
	return h
}

// encodeState writes the object whose hash is the state's id.
func encodeState(e *wire.Encoder, s *State, root cas.Hash) {
	e.Header(wire.KindState)
	e.Uvarint(uint64(s.Inodes))
	e.Varint(s.Bytes)
	e.Uvarint(uint64(s.Depth))
	e.Byte(byte(s.height))
	if s.height > 0 {
		e.Raw(root[:])
	}
}

func decodeState(raw []byte) (*State, error) {
	d := wire.NewDecoder(raw)
	if k := d.Header(); k != wire.KindState {
		d.Fail("kind %d is no state", k)
	}

	s := &State{Inodes: d.Length(), Bytes: d.Varint(), Depth: int(d.Uint(MaxDepth - 1)), height: int(d.Byte())}
	if s.height > heightFor(MaxIno) {
		d.Fail("table of height %d", s.height)
	}
	if s.height > 0 {
		s.root = sealedPage(decodeHash(d), 0)
	}

	return s, d.Finish()
}

// encodeBody writes the body of a page other than a table leaf. The pages below it must be sealed.
func encodeBody(e *wire.Encoder, b *body) {
	e.Header(b.kind)

	switch b.kind {
	case wire.KindTableInner:
		e.Raw(binary.LittleEndian.AppendUint64(nil, kidBitmap(b.kids)))
		for _, k := range b.kids {
			if k != nil {
				h, _ := k.id()
				e.Raw(h[:])
			}
		}

	case wire.KindDirInner:
		e.Raw(binary.LittleEndian.AppendUint16(nil, uint16(kidBitmap(b.kids))))

		for _, k := range b.kids {
			if k != nil {
				h, _ := k.id()
				e.Uvarint(uint64(k.n))
				e.Raw(h[:])
			}
		}

	case wire.KindDirLeaf:
		e.Uvarint(uint64(len(b.ents)))
		encodeEntries(e, b.ents)
	}
}

func encodeEntries(e *wire.Encoder, ents entries) {
	var ino uint64
	for i := range ents {
		d := &ents[i]
		e.Uvarint(uint64(d.slot())<<typeBits | uint64(d.Type>>12))
		e.Varint(int64(d.Ino - ino))
		e.String(d.Name)
		ino = d.Ino
	}
}

// kidBitmap returns a bitmap of the slots that have a page.
func kidBitmap(kids []*page) (m uint64) {
	for i, k := range kids {
		if k != nil {
			m |= 1 << i
		}
	}
	return m
}

// decodeBody decodes a page of any kind. The body of a table leaf refers to raw, so the caller must
// not change raw afterwards.
func decodeBody(raw []byte) (*body, error) {
	d := wire.NewDecoder(raw)
	b := &body{kind: d.Header()}
	switch b.kind {
	case wire.KindTableInner:
		if m := d.Raw(8); m != nil {
			b.kids = decodeKids(d, binary.LittleEndian.Uint64(m), tableFanout, false)
		}
	case wire.KindTableLeaf:
		b.leaf = decodeTableLeaf(d, raw)
	case wire.KindDirInner:
		if m := d.Raw(2); m != nil {
			b.kids = decodeKids(d, uint64(binary.LittleEndian.Uint16(m)), dirFanout, true)
		}
	case wire.KindDirLeaf:
		n := d.Count(3)
		b.fitsInline = d.Remaining() <= maxInlineSize
		b.ents = decodeEntries(d, n)
	default:
		d.Fail("kind %d is no page", b.kind)
	}

	if err := d.Finish(); err != nil {
		return nil, err
	}

	return b, nil
}

// decodeKids reads the hashes of the pages below an inner page. m is the bitmap of the slots that have a page. If
// counts is set, the number of entries below each page is written before its hash.
func decodeKids(d *wire.Decoder, m uint64, fan int, counts bool) []*page {
	n := bits.OnesCount64(m)
	if n == 0 {
		d.Fail("inner page with nothing below")
		return nil
	}

	if n > d.Remaining()/hashSize {
		d.Fail("cut short")
		return nil
	}

	kids := make([]*page, fan)
	for i := range kids {
		if m&(1<<i) == 0 {
			continue
		}
		entries := 0
		if counts {
			if entries = int(d.Uint(maxEntries)); entries == 0 {
				d.Fail("page with no entries")
			}
		}

		kids[i] = sealedPage(decodeHash(d), entries)
	}

	return kids
}

// decodeInline reads the n inline entries of a directory.
func decodeInline(text string, n int) (*body, error) {
	d := wire.NewDecoder([]byte(text))
	b := &body{kind: wire.KindDirLeaf, ents: decodeEntries(d, n)}
	return b, d.Finish()
}

func decodeEntries(d *wire.Decoder, n int) entries {
	if n == 0 || n > maxDirLeaf {
		d.Fail("directory leaf of %d entries", n)
		return nil
	}

	ents := make(entries, n)
	var ino uint64

	for i := range ents {
		tag := d.Uint(maxCollisions<<typeBits - 1)
		ino += uint64(d.Varint())
		name := d.String()
		if d.Err() != nil {
			return nil
		}
		if ino == 0 || ino > MaxIno {
			d.Fail("entry of inode %d", ino)
		}
		if CheckName(name) != nil {
			d.Fail("entry of name %q", name)
		}

		ents[i] = dirent{Dirent{name, ino, uint32(tag%(1<<typeBits)) << 12}, hashName(name)<<slotBits | tag>>typeBits}
		if i > 0 && ents[i-1].key >= ents[i].key {
			d.Fail("entries not in order")
		}
	}

	return ents
}
