package tree

// A dirPart is a part of a directory that is compared with the corresponding part of another directory. It has
// either a page or entries. It has entries if this directory has a leaf where the other directory has an inner
// page. The leaf's entries are then split as the inner page splits its entries.
type dirPart struct {
	page *page
	ents entries
}

func (t dirPart) isEmpty() bool { return t.page == nil && len(t.ents) == 0 }

// load returns the entries, or the pages below an inner page.
func (t dirPart) load(src *Source, pos triePos) (ents entries, kids []*page, err error) {
	if t.page == nil {
		return t.ents, nil, nil
	}
	b, err := t.page.loadDir(src, pos, true)
	if err != nil {
		return nil, nil, err
	}

	return b.ents, b.kids, nil
}

// compareDirs calls fn for every name whose entries differ, in no order. Pages that are known to be
// equal are not loaded.
func compareDirs(src *Source, a, b dirPart, pos triePos, fn func(name string)) error {
	if a.isEmpty() && b.isEmpty() || a.page != nil && samePage(a.page, b.page) {
		return nil
	}
	x, xk, err := a.load(src, pos)
	if err != nil {
		return err
	}

	y, yk, err := b.load(src, pos)
	if err != nil {
		return err
	}

	if xk == nil && yk == nil {
		compareEntries(x, y, fn)
		return nil
	}

	xs, ys := splitDir(x, pos.depth), splitDir(y, pos.depth) // empty for an inner page

	for i := range dirFanout {
		s, t := dirPart{ents: xs[i]}, dirPart{ents: ys[i]}
		if xk != nil {
			s.page = xk[i]
		}
		if yk != nil {
			t.page = yk[i]
		}
		if err := compareDirs(src, s, t, pos.child(i), fn); err != nil {
			return err
		}
	}

	return nil
}

// compareEntries merges two lists of entries by hash. Names with equal hashes are compared without their slots,
// which depend on the order in which the names were added.
func compareEntries(x, y entries, fn func(name string)) {
	for i, j := 0, 0; i < len(x) || j < len(y); {
		var hash uint64
		if j == len(y) || i < len(x) && x[i].hash() <= y[j].hash() {
			hash = x[i].hash()
		} else {
			hash = y[j].hash()
		}

		nx, ny := x[i:i+x.runLength(i, hash)], y[j:j+y.runLength(j, hash)] // the entries with this hash
		for _, e := range nx {
			k, ok := ny.search(hash, e.Name)
			if !ok || ny[k].Ino != e.Ino {
				fn(e.Name)
			}
		}

		for _, e := range ny {
			if _, ok := nx.search(hash, e.Name); !ok {
				fn(e.Name)
			}
		}

		i, j = i+len(nx), j+len(ny)
	}
}
