package cas

import "maps"

// A mark says that an object was found damaged at a place, so that the next Put stores it
// again. Marks are kept in the database, for that Put may come after a restart.

func markKey(h Hash) []byte {
	k := objectKey(h)
	k[0] = keyMark
	return k
}

// mark notes that an object was found damaged. It reports whether that is new. mu is held.
func (x *locator) mark(h Hash, l loc) bool {
	if old, ok := x.bad[h]; ok && old.same(l) || len(x.bad) >= maxMarks {
		return false
	}
	x.bad[h] = l
	x.unsaved[h] = true
	return true
}

// unmark removes the mark of an object, if it has one. mu is held.
func (x *locator) unmark(h Hash) {
	if _, ok := x.bad[h]; ok {
		delete(x.bad, h)
		x.unsaved[h] = true
	}
}

// saveMarks writes the marks that have changed.
func (x *locator) saveMarks() error {
	x.writing.Lock()
	defer x.writing.Unlock()
	return x.saveMarksLocked()
}

// saveMarksLocked is saveMarks with writing held.
func (x *locator) saveMarksLocked() error {
	if x.readOnly {
		return nil
	}
	x.mu.Lock()
	changed := x.unsaved
	x.unsaved = map[Hash]bool{}
	set := map[Hash]loc{}
	for h := range changed {
		if l, ok := x.bad[h]; ok {
			set[h] = l
		}
	}
	x.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	b := x.db.Batch(x.space.forIndex)
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
		maps.Copy(x.unsaved, changed)
	}
	return err
}

// loadMarks reads the marks of objects that are still where they were found damaged.
func (x *locator) loadMarks() error {
	found := map[Hash]loc{}
	stale := map[Hash]bool{}
	err := x.db.Each([]byte{keyMark}, func(k, v []byte) error {
		if len(k) != 1+len(Hash{}) {
			return x.db.Unreadable(errIndexValue)
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
		if !ok || !now.same(l) {
			delete(found, h)
			stale[h] = true
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	maps.Copy(x.bad, found)
	maps.Copy(x.unsaved, stale)
	return nil
}
