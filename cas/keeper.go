package cas

import (
	"bytes"
	"fmt"
	"slices"
)

// maxLeaves is how many hashes a Keeper gathers, 32 bytes each, before it reads the index once
// for all of them. To look a hash up alone takes as long as to read fifty places in order.
const maxLeaves = 3 << 17

// A Keeper is what mark names objects to. It is for one goroutine.
type Keeper struct {
	s          *sweeper
	incomplete bool
	leaves     []Hash // named and not looked up yet
	err        error  // the first

	last  Hash // that Keep has found, and where
	place loc
}

// Keep names an object that must stay. It reports whether that is the first time, so that mark
// need not descend twice. Of an object that is not in the store it reports true; unless the
// store is incomplete, nothing is removed then, for the index may be wrong and not the caller.
func (k *Keeper) Keep(h Hash) (first bool) {
	l, ok, err := k.s.index.find(h)
	if err == nil && ok {
		k.last, k.place = h, l
	}
	return k.found(h, l, ok, err)
}

func (k *Keeper) found(h Hash, l loc, ok bool, err error) (first bool) {
	if err == nil && !ok && !k.incomplete {
		err = ErrNotFound
	}
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("look for object %s: %w", h, err)
	}
	return err == nil && (!ok || k.s.c.mark(l))
}

// KeepLeaf is Keep for an object that refers to no others.
func (k *Keeper) KeepLeaf(h Hash) {
	if k.leaves == nil {
		k.leaves = make([]Hash, 0, maxLeaves) // one that grows leaves its copies to Go's collector
	}
	if k.leaves = append(k.leaves, h); len(k.leaves) >= maxLeaves {
		k.keepLeaves()
	}
}

// keepLeaves looks the gathered hashes up, in one walk through the index.
func (k *Keeper) keepLeaves() {
	slices.SortFunc(k.leaves, func(a, b Hash) int { return bytes.Compare(a[:], b[:]) })
	left := slices.Compact(k.leaves)
	// Memory first: what is written to the index meanwhile is found in both.
	fresh := k.s.index.unwritten()
	left = slices.DeleteFunc(left, func(h Hash) bool {
		l, ok := fresh[h]
		if ok {
			k.found(h, l, true, nil)
		}
		return ok
	})
	if len(left) > 0 {
		err := k.s.index.storedObjects(func(h Hash, l loc) {
			for len(left) > 0 && bytes.Compare(left[0][:], h[:]) < 0 {
				k.found(left[0], loc{}, false, nil)
				left = left[1:]
			}
			if len(left) > 0 && left[0] == h {
				k.found(h, l, true, nil)
				left = left[1:]
			}
		})
		for _, h := range left {
			k.found(h, loc{}, false, err)
		}
	}
	k.leaves = k.leaves[:0]
}

// Read is Store.Get for an object that Keep has just been called for, without another look into
// the index.
func (k *Keeper) Read(h Hash, dst []byte) ([]byte, error) {
	if h == k.last {
		if b, err := k.s.packs.read(k.s.codec, h, k.place, dst); err == nil {
			return b, nil
		}
	}
	return k.s.Get(h, dst)
}
