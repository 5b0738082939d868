package content

import (
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// A file of many chunks is a tree of list objects. A list of level 1 names
// chunks, one of level n names lists of level n-1. Where one list ends and the
// next begins is decided by the hashes of the items (see listBuilder), so that a
// change in the middle of a file leaves the lists before and after it alone.
const (
	minList  = 64  // a list that is not the last of its level has at least so many items
	maxList  = 256 // and at most so many
	maxDepth = 12  // enough for 2^63 bytes: every level holds 64 times the one below
)

// item is one line of a list: a chunk (level 0) or a list and all below it.
type item struct {
	n         int64 // bytes of the file
	holes     int64 // of them without blocks
	unwritten int64 // of them with blocks but no data
	hash      cas.Hash
}

// add counts the bytes of another item in.
func (it *item) add(o item) {
	it.n += o.n
	it.holes += o.holes
	it.unwritten += o.unwritten
}

// data reports whether the item is a chunk or has chunks below it.
func (it item) data() bool { return it.holes+it.unwritten < it.n }

// full reports whether the item is data alone.
func (it item) full() bool { return it.holes+it.unwritten == 0 }

// mixed reports whether the item has more than one of data, holes and reservations.
func (it item) mixed() bool {
	return it.holes > 0 && it.holes < it.n || it.unwritten > 0 && it.unwritten < it.n
}

// An item is written as its length and, on level 0, its kind in the two lowest
// bits; above that what it has of holes and reservations; then the hash of what
// has one.
const (
	itemData = iota
	itemHole
	itemUnwritten
)

func encodeItem(e *wire.Encoder, level uint8, it item) {
	switch {
	case level > 0:
		e.Uvarint(uint64(it.n))
		e.Uvarint(uint64(it.holes))
		e.Uvarint(uint64(it.unwritten))
		e.Raw(it.hash[:])
	case it.holes > 0:
		e.Uvarint(itemHole)
		e.Uvarint(uint64(it.n))
	case it.unwritten > 0:
		e.Uvarint(itemUnwritten)
		e.Uvarint(uint64(it.n))
	default:
		e.Uvarint(uint64(it.n)<<2 | itemData)
		e.Raw(it.hash[:])
	}
}

func decodeItem(d *wire.Decoder, level uint8) (it item) {
	if level > 0 {
		it.n = d.Length()
		it.holes = int64(d.Uint(uint64(it.n)))
		it.unwritten = int64(d.Uint(uint64(it.n - it.holes)))
		copy(it.hash[:], d.Raw(len(it.hash)))
		if it.hash.IsZero() {
			d.Fail("list without a hash")
		}
	} else {
		switch v := d.Uvarint(); v & 3 {
		case itemData:
			if it.n = int64(v >> 2); it.n > maxChunk {
				d.Fail("chunk of %d bytes", it.n)
			}
			copy(it.hash[:], d.Raw(len(it.hash)))
			if it.hash.IsZero() {
				d.Fail("chunk without a hash")
			}
		case itemHole, itemUnwritten:
			if it.n = d.Length(); v == itemHole {
				it.holes = it.n
			} else {
				it.unwritten = it.n
			}
			if v > itemUnwritten {
				d.Fail("hole of kind %d", v)
			}
		default:
			d.Fail("chunk of kind %d", v&3)
		}
	}
	if it.n == 0 {
		d.Fail("empty chunk")
	}
	if d.Err() != nil {
		return item{}
	}
	return it
}

// encodeList writes a list object of the given level, which is at least 1.
func encodeList(e *wire.Encoder, level uint8, items []item) {
	e.Header(wire.KindList)
	e.Byte(level)
	e.Uvarint(uint64(len(items)))
	for i := range items {
		encodeItem(e, level-1, items[i])
	}
}

// openList reads the header of a list object and the number of its items.
func openList(raw []byte, level uint8) (d wire.Decoder, count int) {
	d = *wire.NewDecoder(raw)
	if kind := d.Header(); kind != wire.KindList {
		d.Fail("kind %d is no chunk list", kind)
	}
	if l := d.Byte(); l != level || l == 0 || l > maxDepth {
		d.Fail("list of level %d where %d belongs", l, level)
	}
	if count = d.Count(2); count == 0 || count > maxList {
		d.Fail("list of %d items", count)
	}
	return d, count
}

// checkList decodes all of a list object.
func checkList(raw []byte, level uint8) (item, error) {
	d, count := openList(raw, level)
	var sum itemSum
	for i := 0; i < count && d.Err() == nil; i++ {
		sum.add(&d, decodeItem(&d, level-1))
	}
	if err := d.Finish(); err != nil {
		return item{}, err
	}
	return sum.item, nil
}

// cursor goes through the chunks of a ChunkMap from the front. It stands on an item:
// next goes past it and whatever is below it, enter goes to the first item of
// the list that it names.
type cursor struct {
	src  *Source
	once bool // do not keep lists in the cache

	off   int64 // in the file, where cur begins
	cur   item  // n is 0 at the end
	level uint8 // of cur, 0 for a chunk

	chunks []item  // without lists: what comes after cur
	lists  []frame // the lists that lead to cur
}

type frame struct {
	d    wire.Decoder
	left int
	end  int64 // offset in the file where the list ends
}

func (b *ChunkMap) cursor(src *Source) cursor {
	c := cursor{src: src}
	switch {
	case b.depth > 0:
		c.cur, c.level = b.item, b.depth
	case len(b.chunks) > 0:
		c.cur, c.chunks = b.chunks[0], b.chunks[1:]
	}
	return c
}

func (c *cursor) done() bool { return c.cur.n == 0 }

// end returns the offset at which cur ends.
func (c *cursor) end() int64 { return c.off + c.cur.n }

func (c *cursor) next() error {
	c.off += c.cur.n
	c.cur = item{}
	if len(c.chunks) > 0 {
		c.cur, c.chunks = c.chunks[0], c.chunks[1:]
		return nil
	}
	for len(c.lists) > 0 {
		f := &c.lists[len(c.lists)-1]
		if f.left > 0 {
			return c.read(f)
		}
		c.off = f.end
		c.level++
		c.lists = c.lists[:len(c.lists)-1]
	}
	return nil
}

// enter goes down into a list, which cur must be.
func (c *cursor) enter() error {
	raw, err := c.src.list(&c.cur, c.level, c.once)
	if err != nil {
		return err
	}
	d, count := openList(raw, c.level)
	if err := d.Err(); err != nil {
		return fmt.Errorf("chunk list %s: %w", c.cur.hash, err)
	}
	c.lists = append(c.lists, frame{d: d, left: count, end: c.end()})
	c.level--
	return c.read(&c.lists[len(c.lists)-1])
}

func (c *cursor) read(f *frame) error {
	f.left--
	if c.cur = decodeItem(&f.d, c.level); f.d.Err() != nil {
		return fmt.Errorf("chunk list: %w", f.d.Err())
	}
	return nil
}

// seek goes forward to the chunk or hole that holds off, or to the end.
func (c *cursor) seek(off int64) error {
	for !c.done() {
		var err error
		switch {
		case c.end() <= off:
			err = c.next()
		case c.level > 0:
			err = c.enter()
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
