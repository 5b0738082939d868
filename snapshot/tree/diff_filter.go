package tree

// A filter is a tree of the paths that Diff compares: a map from names to the filters below. A nil filter selects
// its path and all paths below.
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
				break // a directory above is selected
			}

			if i == len(names)-1 {
				kid = nil // selects all paths below, so the filters below are no longer needed
			} else if !ok {
				kid = make(filter)
			}

			f[name], f = kid, kid
		}
	}

	return root, nil
}

// selected reports whether the path itself is selected, not only paths below it.
func (f filter) selected() bool { return f == nil }

// entry returns the filter for an entry of the directory. ok is false if neither the entry nor a path
// below it is selected.
func (f filter) entry(name string) (kid filter, ok bool) {
	kid, ok = f[name]
	return kid, ok || f == nil
}
