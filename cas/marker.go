package cas

import (
	"bytes"
	"fmt"
	"slices"
)

// maxLeaves is the number of hashes, 32 bytes each, that a Marker gathers before it reads the whole
// index once to look all of them up.
const maxLeaves = 3 << 17

// walkFactor is the number of index entries that a walk reads in the time of one look-up.
const walkFactor = 50

// A Marker collects the objects that a collection must keep: the mark function of Collect calls it.
// It must not be used by several goroutines at once.
type Marker struct {
	sweeper      *sweeper
	allowMissing bool
	leaves       []Hash // passed to MarkLeaf and not looked up yet
	err          error  // the first error

	remembers   bool                // Resume was called, and the places of all kept objects are known, see tryEmptyPack
	generations []generation        // generations of earlier collections and of Remember
	changed     bool                // generations differ from the ones in the index
	newSlots    map[uint64][]uint32 // by pack: slots that Mark and MarkLeaf have kept since the last Remember

	lastHash Hash // the object that Mark found last
	lastLoc  loc  // its place
}

// Mark keeps an object. It reports whether this is its first call for the object, so that the caller visits
// the objects to which the object refers only once. If the object is not in the store, the index may be
// damaged: then Mark reports false, and Collect fails before it removes an object. With allowMissing, Collect
// does not fail, and Mark reports true at every call for such an object.
func (k *Marker) Mark(h Hash) (first bool) {
	k.sweeper.yield()
	l, ok, err := k.sweeper.store.index.find(h)
	if err == nil && ok {
		k.lastHash, k.lastLoc = h, l
	}
	return k.keepPlace(h, l, ok, err)
}

// keepPlace keeps the object at the place that a look-up in the index returned.
func (k *Marker) keepPlace(h Hash, l loc, ok bool, err error) (first bool) {
	if err == nil && !ok && !k.allowMissing {
		err = ErrNotFound
	}
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("look for object %s: %w", h, err)
	}

	if err != nil || ok && !k.sweeper.keepSet.keepMarked(l) {
		return false
	}
	if ok {
		k.rememberPlace(l.place())
	}

	return true
}

// MarkLeaf keeps an object that refers to no other objects. It is faster than Mark.
func (k *Marker) MarkLeaf(h Hash) {
	if k.leaves == nil {
		k.leaves = make([]Hash, 0, maxLeaves) // full size at once: a growing slice would leave garbage
	}
	if k.leaves = append(k.leaves, h); len(k.leaves) >= maxLeaves {
		k.keepLeaves()
	}
}

// keepLeaves keeps the gathered hashes. If they are many, it looks them up in one walk through the sorted index.
func (k *Marker) keepLeaves() {
	slices.SortFunc(k.leaves, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
	remaining := slices.Compact(k.leaves)

	// Read memory before the database, so that a place that a flush moves to the database in between is not
	// missed.
	unwritten := k.sweeper.store.index.unwrittenPlaces()
	remaining = slices.DeleteFunc(remaining, func(h Hash) bool {
		l, ok := unwritten[h]
		if ok {
			k.keepPlace(h, l, true, nil)
		}

		return ok
	})

	if int64(len(remaining))*walkFactor < k.sweeper.objects() {
		for _, h := range remaining {
			k.Mark(h)
		}
	} else if len(remaining) > 0 {
		err := k.sweeper.store.index.eachStoredObject(func(h Hash, l loc) {
			k.sweeper.yield()
			for len(remaining) > 0 && bytes.Compare(remaining[0][:], h[:]) < 0 {
				k.keepPlace(remaining[0], loc{}, false, nil)
				remaining = remaining[1:]
			}

			if len(remaining) > 0 && remaining[0] == h {
				k.keepPlace(h, l, true, nil)
				remaining = remaining[1:]
			}
		})
		for _, h := range remaining {
			k.keepPlace(h, loc{}, false, err)
		}
	}

	k.leaves = k.leaves[:0]
}

// Read works as Store.Get. For the object that the last call of Mark found, it reads at the place that Mark found,
// without another look-up in the index.
func (k *Marker) Read(h Hash, dst []byte) ([]byte, error) {
	if h == k.lastHash {
		if b, err := k.sweeper.store.packs.read(k.sweeper.store.codec, h, k.lastLoc, dst); err == nil {
			return b, nil
		}
	}
	return k.sweeper.store.Get(h, dst)
}
