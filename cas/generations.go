package cas

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// A generation is a group of roots that a collection marked, and the slots, by pack, of the objects
// below these roots that are in no earlier generation. The objects below a root never change. So a
// later collection keeps the slots of all generations before the first one with a root that is no
// longer in use, and marks only the other roots. The generations are stored in the index. They are
// lost when the index is rebuilt, or when an object gets another place outside of a collection.
type generation struct {
	roots []Hash
	slots map[uint64][]uint32
}

// maxGenerationPiece is the largest size in bytes of the pieces in which generations are stored. Badger accepts values
// of this size.
const maxGenerationPiece = 64 << 10

func generationKey(piece int) []byte {
	return binary.BigEndian.AppendUint32([]byte{keyGeneration}, uint32(piece))
}

// Resume keeps the objects that earlier collections marked for roots, and returns the roots whose
// objects it kept. It may be called once, before Mark. Without Resume, Remember has no effect.
func (k *Marker) Resume(roots []Hash) (marked map[Hash]bool, err error) {
	marked = map[Hash]bool{}
	if k.allowMissing {
		return marked, nil
	}

	k.remembers = true
	stored, err := k.sweeper.store.index.loadGenerations()
	if err != nil {
		return nil, err
	}

	used := make(map[Hash]bool, len(roots))
	for _, h := range roots {
		used[h] = true
	}

	for i, g := range stored {
		if slices.ContainsFunc(g.roots, func(h Hash) bool { return !used[h] }) {
			k.changed = true
			stored = stored[:i]
			break
		}

		for _, h := range g.roots {
			marked[h] = true
		}
		for pack, slots := range g.slots {
			k.sweeper.keepSet.keepSlots(pack, slots)
		}
	}

	k.generations = stored

	return marked, nil
}

// Remember makes a generation of roots, so that later collections need not mark them. The caller has
// passed all objects below roots to Mark or MarkLeaf.
func (k *Marker) Remember(roots []Hash) {
	k.keepLeaves()
	g := generation{roots, k.newSlots}
	k.newSlots, k.changed = nil, true

	// Join generations so that each has more roots than the next: then their number stays small.
	for last := len(k.generations) - 1; last >= 0 && len(k.generations[last].roots) <= len(g.roots); last-- {
		old := k.generations[last]
		g.roots = append(old.roots, g.roots...)
		for pack, slots := range g.slots {
			old.slots[pack] = append(old.slots[pack], slots...)
		}
		g.slots, k.generations = old.slots, k.generations[:last]
	}

	k.generations = append(k.generations, g)
}

// rememberPlace adds a place to the next generation.
func (k *Marker) rememberPlace(p place) {
	if !k.remembers {
		return
	}
	if k.newSlots == nil {
		k.newSlots = map[uint64][]uint32{}
	}
	k.newSlots[p.pack] = append(k.newSlots[p.pack], p.slot())
}

// moveSlots replaces the slots of a removed pack by the places to which its objects were moved.
func (k *Marker) moveSlots(pack uint64, to map[uint32]place) {
	for _, g := range k.generations {
		for _, slot := range g.slots[pack] {
			if p, ok := to[slot]; ok {
				g.slots[p.pack] = append(g.slots[p.pack], p.slot())
			}
		}
		delete(g.slots, pack)
	}
}

// saveGenerations writes the generations to the index, or deletes the stored ones if they are no longer right.
// collectionCounted is set if the collection called countCollection.
func (k *Marker) saveGenerations(collectionCounted bool) error {
	x := k.sweeper.store.index
	if x.placesChanged.Load() || k.err != nil || !k.remembers {
		return x.dropGenerations()
	}
	if !collectionCounted && !k.changed {
		return nil
	}

	text := encodeGenerations(k.generations)
	sum := Sum(text)
	x.writeMu.Lock()
	defer x.writeMu.Unlock()

	b := x.db.Batch(x.space.checkForIndex)
	n := 0
	for piece := range slices.Chunk(text, maxGenerationPiece) {
		b.Put(generationKey(n), piece)
		n++
	}
	b.Put([]byte{keyGenerations}, binary.LittleEndian.AppendUint64(sum[:], x.collectionCount()))

	return b.Commit()
}

// dropGenerations deletes the generations that the index contains.
func (x *locator) dropGenerations() error {
	_, ok, err := x.db.Get([]byte{keyGenerations})
	if err != nil || !ok {
		return err
	}
	x.writeMu.Lock()
	defer x.writeMu.Unlock()

	b := x.db.Batch(nil)
	b.Delete([]byte{keyGenerations})

	return b.Commit()
}

// loadGenerations reads the generations. It returns no generations if a place in them may have changed.
func (x *locator) loadGenerations() ([]generation, error) {
	head, ok, err := x.db.Get([]byte{keyGenerations})
	if err != nil || !ok || x.placesChanged.Load() {
		return nil, err
	}

	var text []byte
	if err := x.db.Each([]byte{keyGeneration}, func(_, v []byte) error {
		text = append(text, v...)
		return nil
	}); err != nil {
		return nil, err
	}

	// Cut at the stored length: after the last piece there may be old pieces of a longer list.
	if len(text) < 8 || uint64(len(text)) < binary.LittleEndian.Uint64(text) {
		return nil, nil
	}

	text = text[:binary.LittleEndian.Uint64(text)]
	sum := Sum(text)
	if !bytes.Equal(head, binary.LittleEndian.AppendUint64(sum[:], x.collectionCount())) {
		return nil, nil
	}

	return decodeGenerations(text[8:])
}

// encodeGenerations returns the number of all bytes, followed by the generations. A generation is
// encoded as its roots, and for each pack the distances between the sorted slots.
func encodeGenerations(all []generation) []byte {
	b := make([]byte, 8)

	for _, g := range all {
		b = binary.AppendUvarint(b, uint64(len(g.roots)))
		for _, h := range g.roots {
			b = append(b, h[:]...)
		}

		b = binary.AppendUvarint(b, uint64(len(g.slots)))
		for _, pack := range slices.Sorted(maps.Keys(g.slots)) {
			slots := g.slots[pack]
			slices.Sort(slots)
			b = binary.LittleEndian.AppendUint64(b, pack)
			b = binary.AppendUvarint(b, uint64(len(slots)))
			last := uint32(0)
			for _, s := range slots {
				b = binary.AppendUvarint(b, uint64(s-last))
				last = s
			}
		}
	}

	binary.LittleEndian.PutUint64(b, uint64(len(b)))

	return b
}

var errGenerations = errors.New("malformed generations in the index")

// decodeGenerations decodes the result of encodeGenerations without the number of bytes. The caller has
// compared the text with its hash, so a malformed text is a fault of the program.
func decodeGenerations(b []byte) (all []generation, err error) {
	number := func() (n uint64) {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			err, b = errGenerations, nil
			return 0
		}
		b = b[size:]
		return n
	}

	for len(b) > 0 {
		g := generation{slots: map[uint64][]uint32{}}
		for range number() {
			if len(b) < len(Hash{}) {
				return nil, errGenerations
			}
			g.roots, b = append(g.roots, Hash(b)), b[len(Hash{}):]
		}

		for range number() {
			if len(b) < 8 {
				return nil, errGenerations
			}
			pack := binary.LittleEndian.Uint64(b)
			b = b[8:]

			n, last := number(), uint32(0)
			slots := make([]uint32, 0, min(n, uint64(len(b))))
			for range n {
				last += uint32(number())
				slots = append(slots, last)
			}
			g.slots[pack] = slots
		}

		all = append(all, g)
	}

	return all, err
}
