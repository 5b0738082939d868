package content

import (
	"math"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// maxInline is how many chunks a ChunkMap names itself; more of them are in list
// objects.
const maxInline = 8

// A Chunk is a run of a sealed file: the bytes of one stored object, or a hole.
type Chunk struct {
	Len       int64    // bytes of the file that it covers, above 0
	Hash      cas.Hash // zero for a run that reads as zeros and has no object
	Unwritten bool     // with a zero Hash: blocks are reserved (fallocate)
}

// A ChunkMap is the sealed content of a regular file. It never changes. Files with
// the same bytes, holes and reservations have equal ChunkMaps, however they came
// about.
type ChunkMap struct {
	Size  int64 // of the file, in bytes
	Alloc int64 // bytes of it that are data or reserved: Size without the holes

	Chunks []Chunk  // the whole file, when it has at most 8 chunks
	Root   cas.Hash // else the topmost list object
	Depth  uint8    // levels of list objects; 0 with Chunks

	unwritten int64 // bytes of Alloc that are reserved only
}

// Equal reports whether the sealed contents are the same.
func (b *ChunkMap) Equal(o *ChunkMap) bool {
	if b == o {
		return true
	}
	return b.Size == o.Size && b.Alloc == o.Alloc && b.Depth == o.Depth && b.Root == o.Root &&
		slices.Equal(b.Chunks, o.Chunks)
}

// kinds is layout.kinds for [off, end) of a sealed file.
func (b *ChunkMap) kinds(src *Source, off, end int64, lists bool, fn func(off int64, it item) bool) error {
	c := b.cursor(src)
	for !c.done() && c.off < end {
		step := c.next
		if from, to := max(c.off, off), min(c.end(), end); from < to {
			it := c.cur
			it.hash = cas.Hash{}
			mixed := it.mixed()
			if it.n = to - from; !mixed {
				it.holes, it.unwritten = min(it.holes, it.n), min(it.unwritten, it.n)
			}
			if mixed && !(lists && it.n == c.cur.n) {
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
// objects; lists come before what they name. Below a list for which fn answers
// false nothing is visited; its answer for a chunk means nothing.
func (b *ChunkMap) eachHash(src *Source, fn func(h cas.Hash, isList bool) (descend bool, err error)) error {
	c := b.cursor(src)
	c.once = true
	for !c.done() {
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

// Encode appends b as it stands in a table leaf.
func (b *ChunkMap) Encode(e *wire.Encoder) {
	e.Byte(b.Depth)
	if b.Depth > 0 {
		encodeItem(e, b.Depth, b.top())
		return
	}
	e.Uvarint(uint64(len(b.Chunks)))
	for i := range b.Chunks {
		encodeItem(e, 0, b.Chunks[i].item())
	}
}

// DecodeChunkMap reads what Encode wrote; errors are d's.
func DecodeChunkMap(d *wire.Decoder) *ChunkMap {
	b := &ChunkMap{Depth: d.Byte()}
	if b.Depth > maxDepth {
		d.Fail("chunk lists %d deep", b.Depth)
		return b
	}
	var sum itemSum
	if b.Depth > 0 {
		it := decodeItem(d, b.Depth)
		sum.add(d, it)
		b.Root = it.hash
	} else {
		n := d.Count(2)
		if n > maxInline {
			d.Fail("%d chunks inline", n)
			return b
		}
		b.Chunks = make([]Chunk, 0, n)
		for range n {
			it := decodeItem(d, 0)
			sum.add(d, it)
			b.Chunks = append(b.Chunks, Chunk{it.n, it.hash, it.unwritten > 0})
		}
	}
	b.Size, b.Alloc, b.unwritten = sum.n, sum.n-sum.holes, sum.unwritten
	return b
}

// item returns c as an item of a list.
func (c *Chunk) item() item {
	it := item{n: c.Len, hash: c.Hash}
	switch {
	case c.Unwritten:
		it.unwritten = c.Len
	case c.Hash.IsZero():
		it.holes = c.Len
	}
	return it
}

// top returns the item that stands for all of a ChunkMap with lists.
func (b *ChunkMap) top() item {
	return item{n: b.Size, holes: b.Size - b.Alloc, unwritten: b.unwritten, hash: b.Root}
}

// itemSum adds up items that follow each other, and checks that they may.
type itemSum struct {
	item
	prev  item
	count int
}

func (s *itemSum) add(d *wire.Decoder, it item) {
	if d.Err() != nil {
		return
	}
	if s.count > 0 && it.hash.IsZero() && s.prev.hash.IsZero() && s.prev.unwritten > 0 == (it.unwritten > 0) {
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
