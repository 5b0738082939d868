package tree

import (
	"context"
	"errors"

	"github.com/amberfs/amberfs/cas"
)

// Damage says what of that which states refer to is missing or damaged.
type Damage struct {
	Object func(h cas.Hash) bool
	Log    func(pos, n int64) bool // any of n bytes at a journal position
}

// Affected calls fn, in path order, with every path of s that cannot be read
// completely because its inode, a page of its directory or a part of its content
// is damaged. Pages that turn out to be missing or damaged count as well. What
// lies below a directory that cannot be listed has no path any more; the
// directory stands for it.
func (s *State) Affected(ctx context.Context, src *Source, bad Damage, fn func(path string)) error {
	// Bad objects may still load, from a cache if nothing else; nothing that came
	// from them is to be believed.
	src = NewSource(goodStore{src.objects, bad.Object}, src.log, 16<<20)
	f := damage{ctx: ctx, src: src, bad: bad, inodes: make(map[uint64]bool)}
	if err := f.table(s.root, s.height, 0); err != nil {
		return err
	}
	if len(f.inodes) == 0 && len(f.ranges) == 0 {
		return nil
	}
	return f.walk(s, "", RootIno, fn)
}

// goodStore refuses bad objects.
type goodStore struct {
	ObjectStore
	bad func(cas.Hash) bool
}

func (g goodStore) Get(h cas.Hash, dst []byte) ([]byte, error) {
	if g.bad(h) {
		return nil, cas.ErrDamaged
	}
	return g.ObjectStore.Get(h, dst)
}

// damage collects the inodes that cannot be read completely.
type damage struct {
	ctx    context.Context
	src    *Source
	bad    Damage
	inodes map[uint64]bool
	ranges [][2]uint64 // first and last number of table pages that are bad
}

// isDamage tells an object that is gone or wrong from a failure to look.
func isDamage(err error) bool {
	return errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrDamaged) || errors.Is(err, ErrMalformed)
}

func (f *damage) has(ino uint64) bool {
	for _, r := range f.ranges {
		if r[0] <= ino && ino <= r[1] {
			return true
		}
	}
	return f.inodes[ino]
}

// table visits a table page whose first inode number is base.
func (f *damage) table(p *page, height int, base uint64) error {
	if p == nil {
		return nil
	}
	if err := f.ctx.Err(); err != nil {
		return err
	}
	b, err := p.loadTable(f.src, height, false)
	if isDamage(err) {
		f.ranges = append(f.ranges, [2]uint64{base, base + 1<<(tableBits*height) - 1})
		return nil
	}
	if err != nil {
		return err
	}
	for i, k := range b.kids {
		if err := f.table(k, height-1, base+uint64(i)<<(tableBits*(height-1))); err != nil {
			return err
		}
	}
	if b.leaf == nil {
		return nil
	}
	for i := range b.leaf.cells {
		if err := f.inode(b.leaf, i, base+uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

func (f *damage) inode(l *tableLeaf, i int, ino uint64) error {
	n, err := l.get(f.src, i, ino)
	if err == nil && n != nil {
		if n.IsDir() {
			err = f.dir(n.Dir.root, 0)
		} else {
			err = n.Content.eachObject(f.src, func(h cas.Hash) bool {
				if f.bad.Object(h) {
					f.inodes[ino] = true
				}
				return !f.inodes[ino]
			})
			if n.Content.inLog(f.bad.Log) {
				f.inodes[ino] = true
			}
		}
	}
	if isDamage(err) {
		f.inodes[ino] = true
		return nil
	}
	return err
}

// dir returns an error that isDamage if any page of a directory is bad.
func (f *damage) dir(p *page, depth int) error {
	if p == nil {
		return nil
	}
	if p.n <= maxDirLeaf {
		if h, ok := p.id(); ok && f.bad.Object(h) {
			return cas.ErrDamaged
		}
		return nil // not worth loading
	}
	b, err := p.loadDir(f.src, depth, false)
	if err != nil {
		return err
	}
	for _, k := range b.kids {
		if err := f.dir(k, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// walk reports the bad inodes at and below path.
func (f *damage) walk(s *State, path string, ino uint64, fn func(path string)) error {
	if err := f.ctx.Err(); err != nil {
		return err
	}
	if f.has(ino) {
		fn(path)
	}
	n, err := s.Get(f.src, ino)
	if isDamage(err) || errors.Is(err, ErrNoInode) {
		return nil // the inode's own page is bad: that was reported
	}
	if err != nil || !n.IsDir() {
		return err
	}
	ents, err := f.entries(n.Dir.root, 0, nil)
	if err != nil {
		return err
	}
	sortByName(ents)
	for i := range ents {
		if e := &ents[i]; e.isDir() || f.has(e.ino) {
			if err := f.walk(s, joinPath(path, e.name), e.ino, fn); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries appends the entries on those pages of a directory that can be read.
func (f *damage) entries(p *page, depth int, to []dirent) ([]dirent, error) {
	if p == nil {
		return to, nil
	}
	b, err := p.loadDir(f.src, depth, false)
	if isDamage(err) {
		return to, nil
	}
	if err != nil {
		return nil, err
	}
	to = append(to, b.ents...)
	for _, k := range b.kids {
		if to, err = f.entries(k, depth+1, to); err != nil {
			return nil, err
		}
	}
	return to, nil
}
