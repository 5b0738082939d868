package tree

import (
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/amberfs/amberfs/snapshot/internal/wire"
)

// A directory is a trie over the hashes of its names. Up to 128 entries it is one leaf. Else its top
// is an inner page with 16 pages below it, and the first four bits of an entry's hash choose among
// them; each of these pages is again a leaf, or an inner page that uses the next four bits. The shape
// depends on the entries alone, so equal directories have equal pages.
const (
	maxDirLeaf    = 128
	dirBits       = 4
	dirFanout     = 1 << dirBits
	nameBits      = 56
	maxDirDepth   = nameBits / dirBits
	slotBits      = 7
	typeBits      = 4
	maxCollisions = 1 << slotBits
	firstCookie   = 16
	maxEntries    = math.MaxInt32 // of a directory

	// maxInlineSize is the largest size of encoded entries that are stored inline, in the record of the
	// directory's inode. Most directories are that small, and an object of their own would take
	// several times the space.
	maxInlineSize = 512
)

// Dir has the entries of a directory. Its zero value is empty. Copying a Dir
// shares the entries; the epoch rule of pages keeps the copies apart.
type Dir struct{ root *page }

// hashName returns the hash of a name, of 56 bits, by which a directory finds the entry.
func hashName(name string) uint64 { return xxhash.Sum64String(name) >> (64 - nameBits) }

// nibble returns the part of a hash that chooses among the kids of an inner page.
func nibble(hash uint64, depth int) int {
	return int(hash>>(nameBits-dirBits*(depth+1))) & (dirFanout - 1)
}

// triePos is the position of a page in the trie of a directory: its depth, and the bits with which the hashes of
// all names below begin.
type triePos struct {
	depth int
	bits  uint64
}

// child returns the position of kid i of an inner page.
func (pos triePos) child(i int) triePos { return triePos{pos.depth + 1, pos.bits<<dirBits | uint64(i)} }

// childFor returns the position of the kid to which a hash belongs.
func (pos triePos) childFor(hash uint64) triePos { return pos.child(nibble(hash, pos.depth)) }

// contains reports whether an entry with a hash belongs on this page or below it.
func (pos triePos) contains(hash uint64) bool { return hash>>(nameBits-dirBits*pos.depth) == pos.bits }

// loadDir returns the body of a directory page. It checks that a sealed page has the number of entries that the
// page above states, and that their hashes belong to the position pos. So no name is found twice in a directory,
// even in a forged one. keep is as in Source.loadBody.
func (p *page) loadDir(src *Source, pos triePos, keep bool) (*body, error) {
	orKind := byte(wire.KindDirInner)
	if pos.depth >= maxDirDepth {
		orKind = wire.KindDirLeaf // no bit of the hash is left to choose a page below, so the page is a leaf
	}

	b, err := p.load(src, keep, wire.KindDirLeaf, orKind)
	if err != nil || !p.isSealed() {
		return b, err
	}
	if b.fitsInline && pos.depth == 0 && p.inline.Load() == nil {
		return nil, fmt.Errorf("%w: directory page of %d entries, which its inode has room for", ErrMalformed, len(b.ents))
	}

	// The entries are in order of their hashes, so it is enough to check the first and the last entry.
	ents := b.ents
	n, fits := len(ents), len(ents) == 0 || pos.contains(ents[0].hash()) && pos.contains(ents[len(ents)-1].hash())
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
	for pos := (triePos{}); p != nil; pos = pos.childFor(hash) {
		b, err := p.loadDir(src, pos, true)
		if err != nil {
			return Dirent{}, false, err
		}

		if b.kind == wire.KindDirLeaf {
			if i, ok := b.ents.search(hash, name); ok {
				return b.ents[i].Dirent, true, nil
			}
			break
		}

		p = b.kids[nibble(hash, pos.depth)]
	}

	return Dirent{}, false, nil
}

// Insert adds an entry, or replaces the entry of the same name. The directory must belong to an
// inode that epoch owns. Insert checks the name because it may come from another user's journal.
func (d *Dir) Insert(src *Source, epoch uint64, e Dirent) error {
	if err := CheckName(e.Name); err != nil {
		return err
	}
	_, err := insertBelow(src, epoch, &d.root, triePos{}, hashName(e.Name), e)
	return err
}

// Remove removes an entry. The error is ErrNotExist if there is no entry with that name. The directory must
// belong to an inode that epoch owns.
func (d *Dir) Remove(src *Source, epoch uint64, name string) error {
	_, ok, err := d.Lookup(src, name)
	if err != nil {
		return err
	}
	if !ok {
		return ErrNotExist
	}

	return removeBelow(src, epoch, &d.root, triePos{}, hashName(name), name)
}

// OwnEntry prepares Insert or Remove of a name. It copies every page that they change and that epoch does not own,
// so that they read no object and cannot fail. The entries do not change. If the name cannot be inserted, the
// error is ErrDirFull. The directory must belong to an inode that epoch owns.
func (d *Dir) OwnEntry(src *Source, epoch uint64, name string) error {
	if d.Len() >= maxEntries {
		return ErrDirFull
	}
	hash := hashName(name)
	pp := &d.root
	for pos := (triePos{}); *pp != nil; pos = pos.childFor(hash) {
		p, b, err := ownDir(src, epoch, pp, pos)
		if err != nil {
			return err
		}

		if b.kind == wire.KindDirLeaf {
			if i, found := b.ents.search(hash, name); !found && b.ents.runLength(i, hash) == maxCollisions {
				return ErrDirFull
			}
			return nil
		}

		if p.n <= maxDirLeaf+maxRemoved { // a removal may turn all pages below into one leaf, so all of them are prepared
			if err := ownAll(src, epoch, pp, pos); err != nil {
				return err
			}
		}

		pp = &b.kids[nibble(hash, pos.depth)]
	}

	return nil
}

// maxRemoved is the largest number of names that one change removes from a directory.
const maxRemoved = 2

// ownAll does what ownDir does, for a page and all pages below it.
func ownAll(src *Source, epoch uint64, pp **page, pos triePos) error {
	_, b, err := ownDir(src, epoch, pp, pos)
	if err != nil {
		return err
	}

	for i := range b.kids {
		if b.kids[i] != nil {
			if err := ownAll(src, epoch, &b.kids[i], pos.child(i)); err != nil {
				return err
			}
		}
	}

	return nil
}

// ownDir makes *pp a page that epoch may change and returns it with its body.
func ownDir(src *Source, epoch uint64, pp **page, pos triePos) (*page, *body, error) {
	p := *pp
	b, err := p.loadDir(src, pos, true)
	if err != nil || p.ownedBy(epoch) {
		return p, b, err
	}

	c := &body{kind: b.kind}
	if b.kind == wire.KindDirLeaf {
		c.ents = append(make(entries, 0, len(b.ents)+1), b.ents...)
	} else {
		c.kids = append(make([]*page, 0, dirFanout), b.kids...)
	}

	src.copiedBytes.Add(c.weight())
	n := newPage(epoch, c)
	n.n = p.n
	*pp = n

	return n, c, nil
}

// buildDir returns the page for entries in order, and the pages below it. The pages share memory with ents.
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

// innerDir returns the body of an inner page for entries in order.
func innerDir(epoch uint64, ents entries, depth int) *body {
	b := &body{kind: wire.KindDirInner, kids: make([]*page, dirFanout)}
	for i, part := range splitDir(ents, depth) {
		if len(part) > 0 {
			b.kids[i] = buildDir(epoch, slices.Clone(part), depth+1)
		}
	}

	return b
}

// splitDir splits entries in order into the parts for each kid of an inner page. The parts share
// memory with ents.
func splitDir(ents entries, depth int) (parts [dirFanout]entries) {
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

// insertBelow inserts or replaces an entry at or below the page *pp, which it creates if it is nil. added is
// false if it replaced an entry.
func insertBelow(src *Source, epoch uint64, pp **page, pos triePos, hash uint64, e Dirent) (added bool, err error) {
	if *pp == nil {
		*pp = buildDir(epoch, entries{{e, hash << slotBits}}, pos.depth)
		return true, nil
	}

	p, b, err := ownDir(src, epoch, pp, pos)
	if err != nil {
		return false, err
	}

	if b.kind == wire.KindDirInner {
		added, err = insertBelow(src, epoch, &b.kids[nibble(hash, pos.depth)], pos.childFor(hash), hash, e)
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

	// Find the lowest slot that no entry of this hash has.
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
		p.mem.Store(innerDir(epoch, b.ents, pos.depth))
	}

	return true, nil
}

// removeBelow removes an entry at or below the page *pp. An empty page becomes nil.
func removeBelow(src *Source, epoch uint64, pp **page, pos triePos, hash uint64, name string) error {
	p, b, err := ownDir(src, epoch, pp, pos)
	if err != nil {
		return err
	}

	// Without the entry, all entries below an inner page may fit into one leaf.
	if b.kind == wire.KindDirInner && p.n == maxDirLeaf+1 {
		b = &body{kind: wire.KindDirLeaf}
		if err := collectEntries(src, p, pos, &b.ents); err != nil {
			return err
		}

		p.mem.Store(b)
	}

	if b.kind == wire.KindDirInner {
		if err := removeBelow(src, epoch, &b.kids[nibble(hash, pos.depth)], pos.childFor(hash), hash, name); err != nil {
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

// collectEntries appends all entries at and below p to ents, in order.
func collectEntries(src *Source, p *page, pos triePos, ents *entries) error {
	b, err := p.loadDir(src, pos, true)
	if err != nil {
		return err
	}

	*ents = append(*ents, b.ents...)
	for i, k := range b.kids {
		if k != nil {
			if err := collectEntries(src, k, pos.child(i), ents); err != nil {
				return err
			}
		}
	}

	return nil
}

// List calls fn for every entry whose cookie is above the cookie after, in order of cookies, until fn returns
// false. If after is 0, it begins at the start. A cookie is at least 16 and below 2^63, and an entry keeps its
// cookie as long as it exists. So if a listing is continued later from a cookie, it has each entry that existed
// all the time exactly once, even if other entries were added or removed.
func (d *Dir) List(src *Source, after uint64, fn func(e Dirent, cookie uint64) bool) error {
	if d.root == nil {
		return nil
	}
	first := max(after, firstCookie-1) - firstCookie + 1 // the lowest key to list
	_, err := listBelow(src, d.root, triePos{}, first, fn)
	return err
}

// listBelow calls fn for the entries at and below p whose key is at least first. more is false if fn
// returned false.
func listBelow(src *Source, p *page, pos triePos, first uint64, fn func(Dirent, uint64) bool) (more bool, err error) {
	b, err := p.loadDir(src, pos, true)
	if err != nil {
		return false, err
	}

	for i := range b.ents {
		if e := &b.ents[i]; e.key >= first && !fn(e.Dirent, e.cookie()) {
			return false, nil
		}
	}

	hash := first >> slotBits
	if hash>>nameBits != 0 { // after the last possible entry
		return true, nil
	}

	for i, k := range b.kids {
		if k == nil || i < nibble(hash, pos.depth) {
			continue
		}
		if i > nibble(hash, pos.depth) {
			first = 0 // all entries of the later kids have higher keys
		}
		if more, err := listBelow(src, k, pos.child(i), first, fn); err != nil || !more {
			return false, err
		}
	}

	return true, nil
}
