package content

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// listBuilder makes a ChunkMap of the chunks of a file, which it is given in order.
//
// A list ends after an item whose hash has six bits zero, if it has minList items
// by then, and in any case at maxList. So the lists of two files, or of two
// versions of one, are the same from the first place on where they happen to end
// at the same chunk. That is also what allows a whole list, or a list of lists,
// to be taken over from an older version unread: at a place where the lists below
// it have just ended, it is what would come out anyway.
type listBuilder struct {
	objects ObjectStore
	levels  [maxDepth + 1][]item // of every level, the items not in a list yet
	zeros   item                 // hole or reservation that may grow still
	total   item
	lists   bool // there are lists
	failed  bool // an object was not stored: what is here is not what was added
	enc     wire.Encoder
}

// add appends a chunk or a hole.
func (b *listBuilder) add(it item) error {
	if it.hash.IsZero() {
		if b.zeros.n > 0 && b.zeros.holes > 0 != (it.holes > 0) {
			if err := b.endZeros(); err != nil {
				return err
			}
		}
		b.zeros.add(it)
		return nil
	}
	if err := b.endZeros(); err != nil {
		return err
	}
	return b.push(0, it)
}

func (b *listBuilder) endZeros() error {
	it := b.zeros
	if it.n == 0 {
		return nil
	}
	b.zeros = item{}
	return b.push(0, it)
}

// aligned reports whether a whole list of the given level, whose items are of the
// level below, can come next.
func (b *listBuilder) aligned(level uint8) bool {
	return b.zeros.n == 0 && !slices.ContainsFunc(b.levels[:level], notEmpty)
}

func notEmpty(items []item) bool { return len(items) > 0 }

// addList appends a list that is stored already. It must be aligned.
func (b *listBuilder) addList(level uint8, it item) error {
	b.lists = true
	return b.push(level, it)
}

func (b *listBuilder) push(level uint8, it item) error {
	b.total.add(it)
	return b.insert(level, it)
}

func (b *listBuilder) insert(level uint8, it item) error {
	b.levels[level] = append(b.levels[level], it)
	if n := len(b.levels[level]); n == maxList || n >= minList && endsList(&it) {
		return b.end(level)
	}
	return nil
}

func endsList(it *item) bool {
	return !it.hash.IsZero() && binary.LittleEndian.Uint16(it.hash[30:])&63 == 0
}

// end makes a list of the items of a level that are waiting.
func (b *listBuilder) end(level uint8) error {
	if level == maxDepth {
		return fmt.Errorf("%w: chunk lists over %d deep", wire.ErrMalformed, maxDepth)
	}
	var it item
	for _, i := range b.levels[level] {
		it.add(i)
	}
	b.enc.Reset()
	encodeList(&b.enc, level+1, b.levels[level])
	var err error
	if it.hash, err = b.objects.Put(cas.KindTree, b.enc.Out()); err != nil {
		b.failed = true
		return fmt.Errorf("write a chunk list: %w", err)
	}
	b.levels[level] = b.levels[level][:0]
	b.lists = true
	return b.insert(level+1, it)
}

// made returns ChunkMaps of all chunks and lists that were added.
func (b *listBuilder) made() (out []*ChunkMap) {
	for level, items := range b.levels {
		if level == 0 {
			out = append(out, &ChunkMap{chunks: slices.Clone(items)})
			continue
		}
		for _, it := range items {
			out = append(out, &ChunkMap{item: it, depth: uint8(level)})
		}
	}
	return out
}

// finish returns the ChunkMap of all that was added.
func (b *listBuilder) finish() (*ChunkMap, error) {
	if err := b.endZeros(); err != nil {
		return nil, err
	}
	out := &ChunkMap{item: b.total}
	if items := b.levels[0]; !b.lists && len(items) <= maxInline {
		out.chunks = items
		return out, nil
	}
	for level := uint8(0); ; level++ {
		items := b.levels[level]
		if level > 0 && len(items) == 1 && !slices.ContainsFunc(b.levels[level+1:], notEmpty) {
			out.depth, out.hash = level, items[0].hash
			return out, nil
		}
		if len(items) > 0 {
			if err := b.end(level); err != nil {
				return nil, err
			}
		}
	}
}
