package content

import (
	"fmt"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// A file of many chunks is a tree of list objects. The items of a list of level 1 are
// chunks and holes, the items of a list of level n are lists of level n-1. The hashes of
// the items decide where a list ends (see listBuilder), so that a change in the middle of
// a file does not change the lists before and after it.
const (
	minListItems = 64  // lowest number of items of a list that is not the last of its level
	maxListItems = 256 // highest number of items of a list
	maxDepth     = 12  // highest level; enough for 2^63 bytes, because a list has at least 64 items
)

// item is one entry of a list. At level 0 it is a chunk, a hole or a reservation. At a higher level it is a list
// with all items below it. A reservation is a range of blocks that were reserved but never written.
type item struct {
	n              int64 // bytes of the file
	holeBytes      int64 // bytes of n without blocks
	unwrittenBytes int64 // bytes of n that are reservations
	hash           cas.Hash
}

// add adds the byte counts of another item.
func (it *item) add(o item) {
	it.n += o.n
	it.holeBytes += o.holeBytes
	it.unwrittenBytes += o.unwrittenBytes
}

// hasData reports whether the item is a chunk or has chunks below it.
func (it item) hasData() bool { return it.holeBytes+it.unwrittenBytes < it.n }

// isAllData reports whether the item has no holes and no reservations.
func (it item) isAllData() bool { return it.holeBytes+it.unwrittenBytes == 0 }

// isMixed reports whether the item has more than one of data, holes and reservations.
func (it item) isMixed() bool {
	return it.holeBytes > 0 && it.holeBytes < it.n || it.unwrittenBytes > 0 && it.unwrittenBytes < it.n
}

// The kinds of an item of level 0. A chunk is encoded as its length and kind in one number, then its hash. A hole
// or reservation is encoded as its kind, then its length. A list is encoded as its numbers of bytes, of bytes in
// holes and of bytes in reservations, then its hash.
const (
	itemData = iota
	itemHole
	itemUnwritten
)

func encodeItem(e *wire.Encoder, level uint8, it item) {
	switch {
	case level > 0:
		e.Uvarint(uint64(it.n))
		e.Uvarint(uint64(it.holeBytes))
		e.Uvarint(uint64(it.unwrittenBytes))
		e.Raw(it.hash[:])

	case it.holeBytes > 0:
		e.Uvarint(itemHole)
		e.Uvarint(uint64(it.n))
	case it.unwrittenBytes > 0:
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
		it.holeBytes = int64(d.Uint(uint64(it.n)))
		it.unwrittenBytes = int64(d.Uint(uint64(it.n - it.holeBytes)))
		copy(it.hash[:], d.Raw(len(it.hash)))
		if it.hash.IsZero() {
			d.Fail("list without a hash")
		}
	} else {
		switch v := d.Uvarint(); v & 3 {
		case itemData:
			if it.n = int64(v >> 2); it.n > maxChunkSize {
				d.Fail("chunk of %d bytes", it.n)
			}
			copy(it.hash[:], d.Raw(len(it.hash)))
			if it.hash.IsZero() {
				d.Fail("chunk without a hash")
			}

		case itemHole, itemUnwritten:
			if it.n = d.Length(); v == itemHole {
				it.holeBytes = it.n
			} else {
				it.unwrittenBytes = it.n
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

// decodeListHeader reads the header of a list object. It returns a decoder positioned at the first item, and the number
// of items. Errors are in the decoder.
func decodeListHeader(raw []byte, level uint8) (d wire.Decoder, count int) {
	d = *wire.NewDecoder(raw)
	if kind := d.Header(); kind != wire.KindList {
		d.Fail("kind %d is no chunk list", kind)
	}
	if l := d.Byte(); l != level || l == 0 || l > maxDepth {
		d.Fail("list of level %d where %d belongs", l, level)
	}
	if count = d.Count(2); count == 0 || count > maxListItems {
		d.Fail("list of %d items", count)
	}

	return d, count
}

// checkList checks all items of a list object, and returns their sum.
func checkList(raw []byte, level uint8) (item, error) {
	d, count := decodeListHeader(raw, level)
	var sum itemSum
	for i := 0; i < count && d.Err() == nil; i++ {
		sum.add(&d, decodeItem(&d, level-1))
	}
	if err := d.Finish(); err != nil {
		return item{}, err
	}

	return sum.item, nil
}

// cursor iterates over the items of a ChunkMap, from the beginning. Its position is the item cur.
type cursor struct {
	src     *Source
	noCache bool // do not put lists into the cache

	off   int64 // offset in the file at which cur begins
	cur   item  // n is 0 at the end
	level uint8 // level of cur, 0 for a chunk, hole or reservation

	chunks []item  // in a ChunkMap without lists: the items after cur
	lists  []frame // the lists above cur, the topmost first
}

// frame is a list that a cursor has entered.
type frame struct {
	d         wire.Decoder // positioned at the next item
	itemsLeft int          // number of items after the present one
	end       int64        // offset in the file at which the list ends
}

// cursor returns a cursor on the topmost list, or on the first chunk of a map without lists.
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

func (c *cursor) atEnd() bool { return c.cur.n == 0 }

// end returns the offset at which cur ends.
func (c *cursor) end() int64 { return c.off + c.cur.n }

// next moves the cursor behind cur and all items below it.
func (c *cursor) next() error {
	c.off += c.cur.n
	c.cur = item{}
	if len(c.chunks) > 0 {
		c.cur, c.chunks = c.chunks[0], c.chunks[1:]
		return nil
	}

	for len(c.lists) > 0 {
		f := &c.lists[len(c.lists)-1]
		if f.itemsLeft > 0 {
			return c.readItem(f)
		}

		c.off = f.end
		c.level++
		c.lists = c.lists[:len(c.lists)-1]
	}

	return nil
}

// enter moves the cursor to the first item of cur, which must be a list.
func (c *cursor) enter() error {
	raw, err := c.src.loadList(&c.cur, c.level, c.noCache)
	if err != nil {
		return err
	}

	d, count := decodeListHeader(raw, c.level)
	if err := d.Err(); err != nil {
		return fmt.Errorf("chunk list %s: %w", c.cur.hash, err)
	}

	c.lists = append(c.lists, frame{d: d, itemsLeft: count, end: c.end()})
	c.level--
	return c.readItem(&c.lists[len(c.lists)-1])
}

// readItem sets cur to the next item of f, the lowest list.
func (c *cursor) readItem(f *frame) error {
	f.itemsLeft--
	if c.cur = decodeItem(&f.d, c.level); f.d.Err() != nil {
		return fmt.Errorf("chunk list: %w", f.d.Err())
	}
	return nil
}

// seek moves the cursor forward to the chunk, hole or reservation that contains off, or to the end.
func (c *cursor) seek(off int64) error {
	for !c.atEnd() {
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
