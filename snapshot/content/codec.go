package content

import (
	"math"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// The kinds of encoded extents, by the place of their bytes.
const (
	extHole = iota
	extUnwritten
	extJournal
	extBase // extBase+i is the i-th encoded ChunkMap
)

// Encode writes c, which need not be sealed. The encoding has positions in the journal, so it is
// valid only together with this journal.
func (c *Content) Encode(e *wire.Encoder) {
	l := c.layout.Load()
	numbers := make(map[*ChunkMap]uint64)
	var bases []*ChunkMap
	number := func(b *ChunkMap) uint64 {
		n, ok := numbers[b]
		if !ok {
			n = uint64(len(bases))
			numbers[b] = n
			bases = append(bases, b)
		}

		return n
	}
	if l.base != nil {
		number(l.base)
	}

	l.ext.eachFrom(0, func(_ int64, x extent) bool {
		if x.inBase() {
			number(x.base)
		}
		return true
	})

	e.Uvarint(uint64(l.size))
	e.Uvarint(uint64(l.alloc))
	e.Uvarint(uint64(len(bases)))
	for _, b := range bases {
		b.Encode(e)
	}

	e.Uvarint(uint64(l.baseLen)) // number of bytes for which the layout uses its base, the first ChunkMap
	e.Uvarint(uint64(l.ext.count()))
	end := int64(0)
	l.ext.eachFrom(0, func(off int64, x extent) bool {
		e.Uvarint(uint64(off - end))
		e.Uvarint(uint64(x.n))

		switch {
		case x.inBase():
			e.Uvarint(extBase + number(x.base))
			e.Uvarint(uint64(x.pos))
		case x.inJournal():
			e.Uvarint(extJournal)
			e.Uvarint(uint64(x.pos))
			e.Uvarint(uint64(x.pos - x.payloadPos))
		case x.pos == posUnwritten:
			e.Uvarint(extUnwritten)
		default:
			e.Uvarint(extHole)
		}

		end = off + x.n

		return true
	})
}

// DecodeSealed returns the content of a ChunkMap that ChunkMap.Encode wrote. Errors are in d. An empty
// file is an error, because its inode has a nil content.
func DecodeSealed(d *wire.Decoder) *Content {
	b := decodeChunkMap(d)
	if d.Err() == nil && b.n == 0 {
		d.Fail("content without bytes")
	}
	return FromChunkMap(b)
}

// Decode reads the encoding of Content.Encode. epoch may change the content, unless it is
// sealed.
func Decode(d *wire.Decoder, epoch uint64) (*Content, error) {
	c := New(epoch)
	l := c.layout.Load()
	l.size = d.Length()
	l.alloc = int64(d.Uint(uint64(l.size)))
	bases := make([]*ChunkMap, 0, d.Count(2))
	for range cap(bases) {
		b := decodeChunkMap(d)
		if d.Err() != nil {
			return nil, d.Err()
		}
		bases = append(bases, b)
	}

	limit := int64(0)
	if len(bases) > 0 {
		limit = min(l.size, bases[0].n)
	}
	if l.baseLen = int64(d.Uint(uint64(limit))); l.baseLen > 0 {
		l.base = bases[0]
	}

	end := int64(0)

	for range d.Count(3) {
		off := end + int64(d.Uint(uint64(l.size-end)))
		x := extent{n: int64(d.Uint(uint64(l.size - off)))}

		switch kind := d.Uvarint(); kind {
		case extHole:
			x.pos = posHole
		case extUnwritten:
			x.pos = posUnwritten
		case extJournal:
			x.pos = int64(d.Uint(uint64(math.MaxInt64 - x.n)))
			x.payloadPos = x.pos - int64(d.Uint(uint64(x.pos)))
		default:
			if kind-extBase >= uint64(len(bases)) {
				d.Fail("extent in base %d of %d", kind-extBase, len(bases))
				break
			}

			x.base = bases[kind-extBase]
			if x.base.n < x.n {
				d.Fail("extent of %d bytes in a base of %d", x.n, x.base.n)
				break
			}

			x.pos = int64(d.Uint(uint64(x.base.n - x.n)))
		}

		if d.Err() == nil && x.n == 0 {
			d.Fail("empty extent")
		}
		if d.Err() != nil {
			return nil, d.Err()
		}

		l.ext.add(off, x)
		end = off + x.n
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	if b := l.unchangedBase(); b != nil {
		return FromChunkMap(b), nil
	}

	return c, nil
}
