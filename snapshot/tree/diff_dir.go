package tree

// trie is a part of a directory while two are compared: a page, or entries from
// a leaf of one directory that stand beside an inner page of the other.
type trie struct {
	page *page
	ents entries
}

func (t trie) none() bool { return t.page == nil && len(t.ents.list) == 0 }

// open returns the entries of a leaf, or the kids of an inner page.
func (t trie) open(src *Source, at pos) (ents entries, kids []*page, err error) {
	if t.page == nil {
		return t.ents, nil, nil
	}
	b, err := t.page.loadDir(src, at, true)
	if err != nil {
		return entries{}, nil, err
	}
	return b.ents, b.kids, nil
}

// compareDirs calls fn for every name whose entries differ, in no order. Parts
// that are known to be equal are not loaded.
func compareDirs(src *Source, a, b trie, at pos, fn func(name string)) error {
	if a.none() && b.none() || a.page != nil && samePage(a.page, b.page) {
		return nil
	}
	x, xk, err := a.open(src, at)
	if err != nil {
		return err
	}
	y, yk, err := b.open(src, at)
	if err != nil {
		return err
	}
	if xk == nil && yk == nil {
		compareEntries(x, y, fn)
		return nil
	}
	xs, ys := splitDir(x, at.depth), splitDir(y, at.depth)
	for i := range dirFan {
		s, t := trie{ents: xs[i]}, trie{ents: ys[i]}
		if xk != nil {
			s.page = xk[i]
		}
		if yk != nil {
			t.page = yk[i]
		}
		if err := compareDirs(src, s, t, at.down(i), fn); err != nil {
			return err
		}
	}
	return nil
}

// compareEntries merges two lists of entries by hash. Within one hash the slots
// tell nothing: they follow from the order in which the names came.
func compareEntries(x, y entries, fn func(name string)) {
	for i, j := 0, 0; i < len(x.list) || j < len(y.list); {
		var hash uint64
		if j == len(y.list) || i < len(x.list) && x.list[i].hash() <= y.list[j].hash() {
			hash = x.list[i].hash()
		} else {
			hash = y.list[j].hash()
		}
		nx, ny := x.part(i, i+x.run(i, hash)), y.part(j, j+y.run(j, hash))
		for k := range nx.list {
			l, ok := ny.search(hash, nx.name(k))
			if !ok || ny.list[l].ino() != nx.list[k].ino() {
				fn(nx.name(k))
			}
		}
		for k := range ny.list {
			if _, ok := nx.search(hash, ny.name(k)); !ok {
				fn(ny.name(k))
			}
		}
		i, j = i+len(nx.list), j+len(ny.list)
	}
}
