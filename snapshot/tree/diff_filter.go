package tree

// filter is a tree of the paths that Diff is limited to, by name. A nil filter lets
// everything pass.
type filter map[string]filter

func newFilter(paths []string) (filter, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	root := make(filter)
	for _, p := range paths {
		names, err := splitPath(p)
		if err != nil || len(names) == 0 {
			return nil, err
		}
		f := root
		for i, name := range names {
			kid, ok := f[name]
			if ok && kid == nil {
				break // a directory above was asked for
			}
			if i == len(names)-1 {
				kid = nil // all of it, whatever was asked for below it
			} else if !ok {
				kid = make(filter)
			}
			f[name], f = kid, kid
		}
	}
	return root, nil
}

// within reports whether the place itself was asked for, not only something below.
func (f filter) within() bool { return f == nil }

// at returns the filter for an entry, and whether to look at it at all.
func (f filter) at(name string) (filter, bool) {
	kid, ok := f[name]
	return kid, ok || f == nil
}
