package content

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// listBuilder makes a ChunkMap of the chunks of a file, which are added in order.
//
// A list ends after an item of which six bits of the hash are zero, if the list has at least minListItems items, and
// always after maxListItems items. Suppose that lists of two files, or of two versions of one file, end at the same
// chunk, and that the chunks after it are equal. Then the lists after it are equal, too.
//
// So a whole list, or a list of lists, can be copied from an older version without being read, if the lists of all
// lower levels have just ended: adding its chunks one by one would make an equal list.
type listBuilder struct {
	objects  ObjectStore
	levels   [maxDepth + 1][]item // of every level, the items that are not in a list yet
	zeros    item                 // the last hole or reservation, which the next item may extend
	total    item
	hasLists bool // a list was added or made
	failed   bool // an object was not stored, so the levels lack an item
	enc      wire.Encoder
}

// add adds a chunk, hole or reservation.
func (b *listBuilder) add(it item) error {
	if it.hash.IsZero() {
		if b.zeros.n > 0 && b.zeros.holeBytes > 0 != (it.holeBytes > 0) {
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

// endZeros adds zeros as an item.
func (b *listBuilder) endZeros() error {
	it := b.zeros
	if it.n == 0 {
		return nil
	}
	b.zeros = item{}
	return b.push(0, it)
}

// canAddList reports whether a whole list of a level can be added now: every item of the lower levels must be in a
// list.
func (b *listBuilder) canAddList(level uint8) bool {
	return b.zeros.n == 0 && !slices.ContainsFunc(b.levels[:level], notEmpty)
}

func notEmpty(items []item) bool { return len(items) > 0 }

// addList adds a list that is stored already. canAddList must be true for its level.
func (b *listBuilder) addList(level uint8, it item) error {
	b.hasLists = true
	return b.push(level, it)
}

// push counts an item in the total and inserts it.
func (b *listBuilder) push(level uint8, it item) error {
	b.total.add(it)
	return b.insert(level, it)
}

// insert adds an item to a level. If the rule of listBuilder ends the list there, it makes the list.
func (b *listBuilder) insert(level uint8, it item) error {
	b.levels[level] = append(b.levels[level], it)
	if n := len(b.levels[level]); n == maxListItems || n >= minListItems && endsList(&it) {
		return b.endList(level)
	}
	return nil
}

func endsList(it *item) bool {
	return !it.hash.IsZero() && binary.LittleEndian.Uint16(it.hash[30:])&63 == 0
}

// endList stores a list of the items of a level, and inserts it into the next level.
func (b *listBuilder) endList(level uint8) error {
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
	if it.hash, err = b.objects.Put(cas.KindTree, b.enc.Bytes()); err != nil {
		b.failed = true
		return fmt.Errorf("write a chunk list: %w", err)
	}

	b.levels[level] = b.levels[level][:0]
	b.hasLists = true
	return b.insert(level+1, it)
}

// partialMaps returns ChunkMaps that together refer to all chunks and lists that were added.
func (b *listBuilder) partialMaps() (out []*ChunkMap) {
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

// finish returns the ChunkMap of all items that were added.
func (b *listBuilder) finish() (*ChunkMap, error) {
	if err := b.endZeros(); err != nil {
		return nil, err
	}

	out := &ChunkMap{item: b.total}
	if items := b.levels[0]; !b.hasLists && len(items) <= maxInlineItems {
		out.chunks = items
		return out, nil
	}

	// End the lists of all levels, up to the level that has only one list.
	for level := uint8(0); ; level++ {
		items := b.levels[level]
		if level > 0 && len(items) == 1 && !slices.ContainsFunc(b.levels[level+1:], notEmpty) {
			out.depth, out.hash = level, items[0].hash
			return out, nil
		}

		if len(items) > 0 {
			if err := b.endList(level); err != nil {
				return nil, err
			}
		}
	}
}
