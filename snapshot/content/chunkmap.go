package content

import (
	"math"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// maxInlineItems is the largest number of items in a ChunkMap without list objects.
const maxInlineItems = 8

// A ChunkMap is the sealed content of a regular file. It never changes. Files with equal bytes, holes and
// reservations have equal ChunkMaps, regardless of the writes that produced them.
type ChunkMap struct {
	item          // the whole file, with the hash of the topmost list
	depth  uint8  // levels of list objects, 0 without lists
	chunks []item // the whole file, if depth is 0
}

func (b *ChunkMap) equal(o *ChunkMap) bool {
	return b == o || b.item == o.item && b.depth == o.depth && slices.Equal(b.chunks, o.chunks)
}

// eachKind does the work of layout.eachKind for the part [off, end) of a sealed file.
func (b *ChunkMap) eachKind(src *Source, off, end int64, allowLists bool, fn func(off int64, it item) bool) error {
	c := b.cursor(src)
	for !c.atEnd() && c.off < end {
		step := c.next

		if from, to := max(c.off, off), min(c.end(), end); from < to {
			it := c.cur // the part of the item in [off, end)
			it.hash = cas.Hash{}
			mixed := it.isMixed()
			if it.n = to - from; !mixed {
				it.holeBytes, it.unwrittenBytes = min(it.holeBytes, it.n), min(it.unwrittenBytes, it.n)
			}

			if mixed && !(allowLists && it.n == c.cur.n) {
				step = c.enter
			} else if !fn(from, it) {
				return nil
			}
		}

		if err := step(); err != nil {
			return err
		}
	}

	return nil
}

// eachHash calls fn for every object that b refers to, directly or through list
// objects, and for a list before its items. It visits the items of a list only if fn
// returns true for the list. The result of fn for a chunk has no meaning.
func (b *ChunkMap) eachHash(src *Source, fn func(h cas.Hash, isList bool) (descend bool, err error)) error {
	c := b.cursor(src)
	c.noCache = true
	for !c.atEnd() {
		descend := false
		if !c.cur.hash.IsZero() {
			var err error
			if descend, err = fn(c.cur.hash, c.level > 0); err != nil {
				return err
			}
		}

		step := c.next
		if descend && c.level > 0 {
			step = c.enter
		}
		if err := step(); err != nil {
			return err
		}
	}

	return nil
}

// Encode writes b in the form that table leaves contain.
func (b *ChunkMap) Encode(e *wire.Encoder) {
	e.Byte(b.depth)

	if b.depth > 0 {
		encodeItem(e, b.depth, b.item)
		return
	}

	e.Uvarint(uint64(len(b.chunks)))
	for _, it := range b.chunks {
		encodeItem(e, 0, it)
	}
}

// Key returns a string that is equal only for equal ChunkMaps.
func (b *ChunkMap) Key() string {
	var e wire.Encoder
	b.Encode(&e)
	return string(e.Bytes())
}

// decodeChunkMap reads the encoding of ChunkMap.Encode. Errors are in d.
func decodeChunkMap(d *wire.Decoder) *ChunkMap {
	b := &ChunkMap{depth: d.Byte()}
	if b.depth > maxDepth {
		d.Fail("chunk lists %d deep", b.depth)
		return b
	}

	if b.depth > 0 {
		b.item = decodeItem(d, b.depth)
		return b
	}

	n := d.Count(2)
	if n > maxInlineItems {
		d.Fail("%d chunks inline", n)
		return b
	}

	var sum itemSum
	b.chunks = make([]item, n)
	for i := range b.chunks {
		b.chunks[i] = decodeItem(d, 0)
		sum.add(d, b.chunks[i])
	}

	b.item = sum.item
	return b
}

// itemSum adds up the items of a list, and checks that no hole or reservation follows another one
// of its kind.
type itemSum struct {
	item
	prev  item
	count int
}

func (s *itemSum) add(d *wire.Decoder, it item) {
	if d.Err() != nil {
		return
	}
	if s.count > 0 && it.hash.IsZero() && s.prev.hash.IsZero() && s.prev.unwrittenBytes > 0 == (it.unwrittenBytes > 0) {
		d.Fail("two holes in a row")
	}

	if it.n > math.MaxInt64-s.n {
		d.Fail("file over 2^63 bytes")
		return
	}

	s.item.add(it)
	s.prev = it
	s.count++
}
