package threeway

import (
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// oursOf returns the file of the plan that continues a file of the base, nil if ours removed it.
func (t *filePairs) oursOf(b *baseFile) (*file, error) {
	if b.oursKnown {
		return b.ours, nil
	}
	f, err := t.oursAtNames(b)
	if err != nil {
		return nil, err
	}

	if f == nil && !t.byPath {
		if f, err = t.movedFile(b); err != nil {
			return nil, err
		}
	}

	b.ours, b.oursKnown = f, true

	return f, nil
}

// oursAtNames returns the file of the plan that continues a file of the base by rules 1 and 2 of filePairs: the
// file at one of the base file's names.
func (t *filePairs) oursAtNames(b *baseFile) (*file, error) {
	f, err := t.keptFile(b)
	if err != nil || f != nil {
		return f, err
	}

	for _, p := range b.names {
		at, err := t.fileAt(p)
		if err != nil {
			return nil, err
		}
		if at == nil || at.node.IsDir() {
			continue
		}
		if in, err := t.replacedFile(at); err != nil || in == b {
			return at, err
		}
	}

	return nil, nil
}

// movedFile returns the file of the plan that continues a file of the base by rule 3 of filePairs: the file with
// the base file's number, unless it continues another file.
func (t *filePairs) movedFile(b *baseFile) (*file, error) {
	f, err := t.oursByNumber(b)
	if err != nil || f == nil {
		return nil, err
	}
	if names, err := t.namesOf(f, 1); err != nil || len(names) == 0 {
		return nil, err
	}

	in, err := t.replacedFile(f)
	if err != nil || in == nil {
		return f, err
	}
	if other, err := t.oursAtNames(in); err != nil || other == f {
		return nil, err
	}

	return f, nil
}

// oursByNumber returns the file of the plan with the number of a file of the base, nil if there is none.
func (t *filePairs) oursByNumber(b *baseFile) (*file, error) {
	f := t.theirFiles[b.node.Ino]
	if f == nil {
		n, err := t.ours.Find(t.source, b.node.Ino)
		if n == nil || err != nil {
			return nil, err
		}
		f = t.presentFile(n)
	}
	if f.theirIno != b.node.Ino || f.node.IsDir() {
		return nil, nil
	}

	return f, nil
}

// keptFile returns the file of the plan that continues a file of the base by rule 1 of filePairs: it has the base
// file's number and one of its names. Else it returns nil.
func (t *filePairs) keptFile(b *baseFile) (*file, error) {
	if b.keptKnown {
		return b.kept, nil
	}
	f, err := t.oursByNumber(b)
	if err != nil {
		return nil, err
	}

	for i := 0; f != nil && b.kept == nil && i < len(b.names); i++ {
		at, err := t.fileAt(b.names[i])
		if err != nil {
			return nil, err
		}
		if at == f {
			b.kept = f
		}
	}

	b.keptKnown = true
	return b.kept, nil
}

// replacedFile returns the file of the base, of the same type, that a file f of the plan replaces at one of f's
// names. If f replaces several files, it returns the first of which the plan keeps no name. It returns nil if f
// replaces no file, or if f itself keeps a name of the base file with f's number.
func (t *filePairs) replacedFile(f *file) (*baseFile, error) {
	if b, err := t.baseFile(f.theirIno); err != nil {
		return nil, err
	} else if b != nil {
		if is, err := t.keptFile(b); err != nil || is == f {
			return nil, err
		}
	}

	names, err := t.namesOf(f, 0)
	if err != nil {
		return nil, err
	}

	slices.SortFunc(names, tree.ComparePaths)

	return t.firstBaseFile(names, func(b *baseFile) (bool, error) {
		if b.node.Type() != f.node.Type() {
			return false, nil
		}
		is, err := t.keptFile(b)
		return is == nil, err
	})
}

// baseInoOf returns the number of the file of the base that a file of the plan continues, 0 if the
// file is new.
func (t *filePairs) baseInoOf(f *file) (uint64, error) {
	if known, ok := t.baseInos[f]; ok {
		return known, nil
	}

	own := uint64(0)

	for _, candidate := range []func() (*baseFile, error){
		func() (*baseFile, error) { return t.baseFile(f.theirIno) },
		func() (*baseFile, error) { return t.replacedFile(f) },
	} {
		b, err := candidate()
		if err != nil {
			return 0, err
		}
		if b == nil {
			continue
		}

		ours, err := t.oursOf(b)
		if err != nil {
			return 0, err
		}

		if ours == f {
			own = b.node.Ino
			break
		}
	}

	t.baseInos[f] = own

	return own, nil
}
