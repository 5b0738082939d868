package tree

import (
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// A directory is a trie over the hashes of its names: a leaf while it has at
// most 128 entries, else an inner page that sends an entry down by the next four
// bits of its hash. The shape depends on the entries alone, so equal directories
// have equal pages.
const (
	maxDirLeaf    = 128
	dirBits       = 4
	dirFan        = 1 << dirBits
	nameBits      = 56
	maxDirDepth   = nameBits / dirBits
	slotBits      = 7
	typeBits      = 4
	maxCollisions = 1 << slotBits
	firstCookie   = 16
	maxEntries    = math.MaxInt32 // of a directory

	// The entries of a directory are inline, in the record of its inode, if they take at most
	// maxInline bytes. Most directories are that small, and a page would take a multiple.
	maxInline = 512
)

// Dir holds the entries of a directory. Its zero value is empty. Copying a Dir
// shares the entries; the epoch rule of pages keeps the copies apart.
type Dir struct{ root *page }

// hashName returns the 56 bits by which an entry is found.
func hashName(name string) uint64 { return xxhash.Sum64String(name) >> (64 - nameBits) }

// nibble returns the part of a hash that chooses among the kids of an inner page.
func nibble(hash uint64, depth int) int {
	return int(hash>>(nameBits-dirBits*(depth+1))) & (dirFan - 1)
}

// pos is the place of a page in the trie of a directory: how deep it is, and the
// bits that the hashes of all names beneath begin with.
type pos struct {
	depth int
	bits  uint64
}

func (at pos) down(i int) pos { return pos{at.depth + 1, at.bits<<dirBits | uint64(i)} }

// towards returns the place below that a hash leads to.
func (at pos) towards(hash uint64) pos { return at.down(nibble(hash, at.depth)) }

// holds reports whether a hash belongs below.
func (at pos) holds(hash uint64) bool { return hash>>(nameBits-dirBits*at.depth) == at.bits }

// loadDir returns the body of a directory page. It checks that a sealed page has as many entries as
// the page above says, with the hashes that belong there. So no name is found twice in a directory,
// even in a forged one.
func (p *page) loadDir(src *Source, at pos, keep bool) (*body, error) {
	orKind := byte(wire.KindDirInner)
	if at.depth >= maxDirDepth {
		orKind = wire.KindDirLeaf
	}
	b, err := p.load(src, keep, wire.KindDirLeaf, orKind)
	if err != nil || !p.isSealed() {
		return b, err
	}
	if b.fitsInline && at.depth == 0 && p.inline.Load() == nil {
		return nil, fmt.Errorf("%w: directory page of %d entries, which its inode has room for", ErrMalformed, len(b.ents))
	}
	ents := b.ents
	n, fits := len(ents), len(ents) == 0 || at.holds(ents[0].hash()) && at.holds(ents[len(ents)-1].hash())
	for _, k := range b.kids {
		if k != nil {
			n += k.n
		}
	}
	if n != p.n || !fits {
		return nil, fmt.Errorf("%w: directory page of %d entries where %d belong, or others", ErrMalformed, n, p.n)
	}
	return b, nil
}

// Len returns the number of entries.
func (d *Dir) Len() int {
	if d.root == nil {
		return 0
	}
	return d.root.n
}

// Lookup finds an entry by name.
func (d *Dir) Lookup(src *Source, name string) (Dirent, bool, error) {
	hash := hashName(name)
	p := d.root
	for at := (pos{}); p != nil; at = at.towards(hash) {
		b, err := p.loadDir(src, at, true)
		if err != nil {
			return Dirent{}, false, err
		}
		if b.kind == wire.KindDirLeaf {
			if i, ok := b.ents.search(hash, name); ok {
				return b.ents[i].Dirent, true, nil
			}
			break
		}
		p = b.kids[nibble(hash, at.depth)]
	}
	return Dirent{}, false, nil
}

// Insert adds an entry, or replaces the one of that name. The directory must belong to an inode
// that epoch owns. The name is checked because it may come from another user's journal.
func (d *Dir) Insert(src *Source, epoch uint64, e Dirent) error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	_, err := insertBelow(src, epoch, &d.root, pos{}, hashName(e.Name), e)
	return err
}

// Remove takes an entry out; ErrNotExist if there is none of that name. The
// directory must belong to an inode that epoch owns.
func (d *Dir) Remove(src *Source, epoch uint64, name string) error {
	if _, ok, err := d.Lookup(src, name); err != nil {
		return err
	} else if !ok {
		return ErrNotExist
	}
	return removeBelow(src, epoch, &d.root, pos{}, hashName(name), name)
}

// OwnEntry copies every page that Insert or Remove of a name changes, unless epoch owns it, so
// that these read nothing and do not fail. The entries stay the same.
// ErrDirFull if the name cannot be inserted. The directory must belong to an inode
// that epoch owns.
func (d *Dir) OwnEntry(src *Source, epoch uint64, name string) error {
	if d.Len() >= maxEntries {
		return ErrDirFull
	}
	hash := hashName(name)
	pp := &d.root
	for at := (pos{}); *pp != nil; at = at.towards(hash) {
		p, b, err := ownDir(src, epoch, pp, at)
		if err != nil {
			return err
		}
		if b.kind == wire.KindDirLeaf {
			if i, found := b.ents.search(hash, name); !found && b.ents.run(i, hash) == maxCollisions {
				return ErrDirFull
			}
			return nil
		}
		if p.n <= maxDirLeaf+maxRemoved { // it may become one leaf
			if err := ownAll(src, epoch, pp, at); err != nil {
				return err
			}
		}
		pp = &b.kids[nibble(hash, at.depth)]
	}
	return nil
}

// maxRemoved is how many names one change takes out of a directory at most.
const maxRemoved = 2

// ownAll is ownDir for a page and all below it.
func ownAll(src *Source, epoch uint64, pp **page, at pos) error {
	_, b, err := ownDir(src, epoch, pp, at)
	if err != nil {
		return err
	}
	for i := range b.kids {
		if b.kids[i] != nil {
			if err := ownAll(src, epoch, &b.kids[i], at.down(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// ownDir makes *pp a page that epoch may change and returns it with its body.
func ownDir(src *Source, epoch uint64, pp **page, at pos) (*page, *body, error) {
	p := *pp
	b, err := p.loadDir(src, at, true)
	if err != nil || p.owned(epoch) {
		return p, b, err
	}
	c := &body{kind: b.kind}
	if b.kind == wire.KindDirLeaf {
		c.ents = append(make(entries, 0, len(b.ents)+1), b.ents...)
	} else {
		c.kids = append(make([]*page, 0, dirFan), b.kids...)
	}
	src.copied.Add(c.weight())
	n := newPage(epoch, c)
	n.n = p.n
	*pp = n
	return n, c, nil
}

// buildDir returns the page for entries in order. Its shape depends on them alone. It keeps ents.
func buildDir(epoch uint64, ents entries, depth int) *page {
	var p *page
	if len(ents) <= maxDirLeaf || depth >= maxDirDepth {
		p = newPage(epoch, &body{kind: wire.KindDirLeaf, ents: ents})
	} else {
		p = newPage(epoch, innerDir(epoch, ents, depth))
	}
	p.n = len(ents)
	return p
}

func innerDir(epoch uint64, ents entries, depth int) *body {
	b := &body{kind: wire.KindDirInner, kids: make([]*page, dirFan)}
	for i, part := range splitDir(ents, depth) {
		if len(part) > 0 {
			b.kids[i] = buildDir(epoch, slices.Clone(part), depth+1)
		}
	}
	return b
}

// splitDir cuts entries in order into those of each kid. The parts alias ents.
func splitDir(ents entries, depth int) (parts [dirFan]entries) {
	for first := 0; first < len(ents); {
		i := nibble(ents[first].hash(), depth)
		end := first + 1
		for end < len(ents) && nibble(ents[end].hash(), depth) == i {
			end++
		}
		parts[i] = ents[first:end]
		first = end
	}
	return parts
}

func insertBelow(src *Source, epoch uint64, pp **page, at pos, hash uint64, e Dirent) (added bool, err error) {
	if *pp == nil {
		*pp = buildDir(epoch, entries{{e, hash << slotBits}}, at.depth)
		return true, nil
	}
	p, b, err := ownDir(src, epoch, pp, at)
	if err != nil {
		return false, err
	}
	if b.kind == wire.KindDirInner {
		added, err = insertBelow(src, epoch, &b.kids[nibble(hash, at.depth)], at.towards(hash), hash, e)
		if added {
			p.n++
		}
		return added, err
	}
	i, found := b.ents.search(hash, e.Name)
	if found {
		b.ents[i].Dirent = e
		return false, nil
	}
	free := 0
	for i < len(b.ents) && b.ents[i].hash() == hash && b.ents[i].slot() == free {
		i++
		free++
	}
	if free == maxCollisions {
		return false, ErrDirFull
	}
	b.ents = slices.Insert(b.ents, i, dirent{e, hash<<slotBits | uint64(free)})
	p.n++
	if len(b.ents) > maxDirLeaf {
		p.mem.Store(innerDir(epoch, b.ents, at.depth))
	}
	return true, nil
}

func removeBelow(src *Source, epoch uint64, pp **page, at pos, hash uint64, name string) error {
	p, b, err := ownDir(src, epoch, pp, at)
	if err != nil {
		return err
	}
	if b.kind == wire.KindDirInner && p.n == maxDirLeaf+1 {
		b = &body{kind: wire.KindDirLeaf}
		if err := collect(src, p, at, &b.ents); err != nil {
			return err
		}
		p.mem.Store(b)
	}
	if b.kind == wire.KindDirInner {
		if err := removeBelow(src, epoch, &b.kids[nibble(hash, at.depth)], at.towards(hash), hash, name); err != nil {
			return err
		}
	} else if i, ok := b.ents.search(hash, name); ok {
		b.ents = slices.Delete(b.ents, i, i+1)
	} else {
		return ErrNotExist
	}
	if p.n--; p.n == 0 {
		*pp = nil
	}
	return nil
}

// collect appends all entries below p, in order.
func collect(src *Source, p *page, at pos, to *entries) error {
	b, err := p.loadDir(src, at, true)
	if err != nil {
		return err
	}
	*to = append(*to, b.ents...)
	for i, k := range b.kids {
		if k != nil {
			if err := collect(src, k, at.down(i), to); err != nil {
				return err
			}
		}
	}
	return nil
}

// List calls fn for every entry whose cookie is above after, in order of cookies,
// until fn returns false. A cookie is at least 16 and below 2^63, and an entry
// keeps it for life. So a listing that continues later from a cookie has each
// entry that existed all the time exactly once, whatever was added or removed.
// An after of 0 begins at the start.
func (d *Dir) List(src *Source, after uint64, fn func(e Dirent, cookie uint64) bool) error {
	if d.root == nil {
		return nil
	}
	first := max(after, firstCookie-1) - firstCookie + 1 // the key of the first place to list
	_, err := listBelow(src, d.root, pos{}, first, fn)
	return err
}

// listBelow lists the entries from a key on.
func listBelow(src *Source, p *page, at pos, first uint64, fn func(Dirent, uint64) bool) (more bool, err error) {
	b, err := p.loadDir(src, at, true)
	if err != nil {
		return false, err
	}
	for i := range b.ents {
		if e := &b.ents[i]; e.key >= first && !fn(e.Dirent, e.cookie()) {
			return false, nil
		}
	}
	hash := first >> slotBits
	if hash>>nameBits != 0 {
		return true, nil
	}
	for i, k := range b.kids {
		if k == nil || i < nibble(hash, at.depth) {
			continue
		}
		if i > nibble(hash, at.depth) {
			first = 0
		}
		if more, err := listBelow(src, k, at.down(i), first, fn); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}
