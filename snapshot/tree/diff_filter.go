package tree

// filter is a tree of the paths that Diff is limited to. A nil filter lets
// everything pass.
type filter struct{ kids map[string]*filter }

func newFilter(paths []string) (*filter, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := &filter{kids: make(map[string]*filter)}
	for _, p := range paths {
		names, err := splitPath(p)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			return nil, nil
		}
		root.add(names)
	}
	return root, nil
}

func (f *filter) add(names []string) {
	for i, name := range names {
		kid, ok := f.kids[name]
		switch {
		case i == len(names)-1:
			f.kids[name] = nil // all of it, whatever was asked for below it
			return
		case ok && kid == nil:
			return // a directory above was asked for
		case !ok:
			kid = &filter{kids: make(map[string]*filter)}
			f.kids[name] = kid
		}
		f = kid
	}
}

// within reports whether the place itself was asked for, not only something below.
func (f *filter) within() bool { return f == nil }

// at returns the filter for an entry, and whether to look at it at all.
func (f *filter) at(name string) (*filter, bool) {
	if f == nil {
		return nil, true
	}
	kid, ok := f.kids[name]
	return kid, ok
}
