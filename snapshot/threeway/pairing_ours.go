package threeway

import (
	"errors"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// oursOf returns the file of the plan that a file of the base has become, nil if it is gone.
func (t *pairing) oursOf(b *baseFile) (*file, error) {
	if b.asked[0] {
		return b.ours, nil
	}
	f, err := t.atItsNames(b)
	if err == nil && f == nil && !t.ByPath {
		f, err = t.moved(b)
	}
	b.ours, b.asked[0] = f, err == nil
	return f, err
}

// atItsNames returns the file of the plan that a file of the base is at one of its names.
func (t *pairing) atItsNames(b *baseFile) (*file, error) {
	f, err := t.kept(b)
	if err != nil || f != nil {
		return f, err
	}
	for _, p := range b.names {
		at, err := t.get(p)
		if err != nil {
			return nil, err
		}
		if at == nil || at.node.IsDir() {
			continue
		}
		if in, err := t.inPlaceOf(at); err != nil || in == b {
			return at, err
		}
	}
	return nil, nil
}

// moved returns the file of the plan with the number of a file of the base, unless it is in
// place of another one.
func (t *pairing) moved(b *baseFile) (*file, error) {
	f, err := t.numbered(b)
	if err != nil || f == nil {
		return nil, err
	}
	if names, err := t.namesOf(f, 1); err != nil || len(names) == 0 {
		return nil, err
	}
	in, err := t.inPlaceOf(f)
	if err != nil || in == nil {
		return f, err
	}
	if other, err := t.atItsNames(in); err != nil || other == f {
		return nil, err
	}
	return f, nil
}

// numbered returns the file of the plan that has the number of a file of the base.
func (t *pairing) numbered(b *baseFile) (*file, error) {
	f := t.theirFiles[b.node.Ino]
	if f == nil {
		n, err := t.Ours.Get(t.Source, b.node.Ino)
		if errors.Is(err, tree.ErrNoInode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		f = t.file(n)
	}
	if f.ino != b.node.Ino || f.node.IsDir() {
		return nil, nil
	}
	return f, nil
}

// kept is numbered if the file has one of its names.
func (t *pairing) kept(b *baseFile) (*file, error) {
	if b.asked[1] {
		return b.same, nil
	}
	f, err := t.numbered(b)
	if err != nil {
		return nil, err
	}
	for i := 0; f != nil && b.same == nil && i < len(b.names); i++ {
		at, err := t.get(b.names[i])
		if err != nil {
			return nil, err
		}
		if at == f {
			b.same = f
		}
	}
	b.asked[1] = true
	return b.same, nil
}

// inPlaceOf returns the file of the base that is gone from the first name of a file of the
// plan, if that has not kept a name itself; nil for none.
func (t *pairing) inPlaceOf(f *file) (*baseFile, error) {
	if b, err := t.baseFile(f.ino); err != nil {
		return nil, err
	} else if b != nil {
		if is, err := t.kept(b); err != nil || is == f {
			return nil, err
		}
	}
	names, err := t.namesOf(f, 0)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, tree.ComparePaths)
	return t.firstGone(names, func(b *baseFile) (bool, error) {
		is, err := t.kept(b)
		return is == nil, err
	})
}

// ownOf returns the number of the file of the base that a file of the plan is, 0 if it is new.
func (t *pairing) ownOf(f *file) (uint64, error) {
	if own, ok := t.own[f]; ok {
		return own, nil
	}
	b, err := t.baseFile(f.ino)
	if err == nil && b != nil {
		var is *file
		if is, err = t.oursOf(b); is != f {
			b = nil
		}
	}
	if err == nil && b == nil {
		if b, err = t.inPlaceOf(f); err == nil && b != nil {
			var is *file
			if is, err = t.oursOf(b); is != f {
				b = nil
			}
		}
	}
	if err != nil {
		return 0, err
	}
	own := uint64(0)
	if b != nil {
		own = b.node.Ino
	}
	t.own[f] = own
	return own, nil
}
