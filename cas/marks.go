package cas

import "maps"

// A mark records that an object was found damaged at a place. Because of the mark, the next Put of the
// object stores it again. Marks are saved in the database, because this Put may come after a restart.
// (The marks of a collection are different: see keepSet.)

func markKey(h Hash) []byte {
	k := objectKey(h)
	k[0] = keyMark
	return k
}

// markDamaged marks an object as damaged at a place. It reports whether the mark is new. The caller
// holds locator.mu.
func (x *locator) markDamaged(h Hash, l loc) bool {
	if old, ok := x.damageMarks[h]; ok && old.samePlace(l) || len(x.damageMarks) >= maxMarks {
		return false
	}
	x.damageMarks[h] = l
	x.unsavedMarks[h] = true
	return true
}

// unmarkDamaged removes the mark of an object, if it has one. The caller holds locator.mu.
func (x *locator) unmarkDamaged(h Hash) {
	if _, ok := x.damageMarks[h]; ok {
		delete(x.damageMarks, h)
		x.unsavedMarks[h] = true
	}
}

// saveMarks writes the changed marks to the database.
func (x *locator) saveMarks() error {
	x.writeMu.Lock()
	defer x.writeMu.Unlock()
	return x.saveMarksLocked()
}

// saveMarksLocked does the work of saveMarks. The caller holds locator.writeMu.
func (x *locator) saveMarksLocked() error {
	if x.readOnly {
		return nil
	}
	x.mu.Lock()
	changed := x.unsavedMarks
	x.unsavedMarks = map[Hash]bool{}
	set := map[Hash]loc{}
	for h := range changed {
		if l, ok := x.damageMarks[h]; ok {
			set[h] = l
		}
	}

	x.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}

	b := x.db.Batch(x.space.checkForIndex)
	for h := range changed {
		if l, ok := set[h]; ok {
			b.Put(markKey(h), encodeLoc(l))
		} else {
			b.Delete(markKey(h))
		}
	}

	err := b.Commit()
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		maps.Copy(x.unsavedMarks, changed)
	}

	return err
}

// loadMarks reads the marks. It drops a mark if its object is now at another place.
func (x *locator) loadMarks() error {
	found := map[Hash]loc{}
	stale := map[Hash]bool{}
	err := x.db.Each([]byte{keyMark}, func(k, v []byte) error {
		if len(k) != 1+len(Hash{}) {
			return x.db.MarkUnreadable(errIndexValue)
		}

		if l, ok := decodeLoc(v); ok && len(found) < maxMarks {
			found[Hash(k[1:])] = l
		} else {
			stale[Hash(k[1:])] = true
		}

		return nil
	})
	if err != nil {
		return err
	}

	for h, l := range found {
		now, ok, err := x.find(h)
		if err != nil {
			return err
		}

		if !ok || !now.samePlace(l) {
			delete(found, h)
			stale[h] = true
		}
	}

	x.mu.Lock()
	defer x.mu.Unlock()

	maps.Copy(x.damageMarks, found)
	maps.Copy(x.unsavedMarks, stale)

	return nil
}
