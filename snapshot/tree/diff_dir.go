package tree

// trie is a part of a directory while two are compared: a page, or entries from
// a leaf of one directory that stand beside an inner page of the other.
type trie struct {
	page *page
	ents []dirent
}

func (t trie) none() bool { return t.page == nil && len(t.ents) == 0 }

// open returns the entries of a leaf, or the kids of an inner page.
func (t trie) open(src *Source, at pos) (ents []dirent, kids []*page, err error) {
	if t.page == nil {
		return t.ents, nil, nil
	}
	b, err := t.page.loadDir(src, at, true)
	if err != nil {
		return nil, nil, err
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
func compareEntries(x, y []dirent, fn func(name string)) {
	for len(x) > 0 || len(y) > 0 {
		var hash uint64
		if len(y) == 0 || len(x) > 0 && x[0].hash() <= y[0].hash() {
			hash = x[0].hash()
		} else {
			hash = y[0].hash()
		}
		nx, ny := run(x, hash), run(y, hash)
		for i := range nx {
			j, ok := search(ny, hash, nx[i].name)
			if !ok || ny[j].ino() != nx[i].ino() {
				fn(nx[i].name)
			}
		}
		for i := range ny {
			if _, ok := search(nx, hash, ny[i].name); !ok {
				fn(ny[i].name)
			}
		}
		x, y = x[len(nx):], y[len(ny):]
	}
}

// run returns the leading entries of that hash.
func run(ents []dirent, hash uint64) []dirent {
	n := 0
	for n < len(ents) && ents[n].hash() == hash {
		n++
	}
	return ents[:n]
}
