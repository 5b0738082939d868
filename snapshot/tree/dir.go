package tree

import (
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/sys/unix"
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
	maxCollisions = 1 << slotBits
	firstCookie   = 16
)

// Dirent is one entry of a directory.
type Dirent struct {
	Name string
	Ino  uint64
	Type uint32 // S_IFMT part of the inode's mode
}

// Dir holds the entries of a directory. Its zero value is empty. Copying a Dir
// shares the entries; the epoch rule of pages keeps the copies apart.
type Dir struct{ root *page }

// dirent is an entry as pages hold it. Entries are in order of hash, then slot:
// the slot tells names of equal hash apart in listing cookies, and an entry keeps
// it for life.
type dirent struct {
	hash uint64
	ino  uint64
	name string
	tag  uint16 // type >> 12 | slot << 4
}

// hashName returns the 56 bits by which an entry is found.
func hashName(name string) uint64 { return xxhash.Sum64String(name) >> (64 - nameBits) }

// nibble returns the part of a hash that chooses among the kids of an inner page.
func nibble(hash uint64, depth int) int {
	return int(hash>>(nameBits-dirBits*(depth+1))) & (dirFan - 1)
}

// validName says whether a directory may hold that name.
func validName(name string) bool {
	return name != "" && len(name) <= 255 && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}

func (e *dirent) slot() int { return int(e.tag >> 4) }

func (e *dirent) before(hash uint64, slot int) bool {
	return e.hash < hash || e.hash == hash && e.slot() < slot
}

func (e *dirent) dirent() Dirent {
	return Dirent{Name: e.name, Ino: e.ino, Type: uint32(e.tag&15) << 12}
}

func (e *dirent) isDir() bool { return uint32(e.tag&15)<<12 == unix.S_IFDIR }

// cookie is the place of an entry in the listing: at least 16, below 2^63.
func (e *dirent) cookie() uint64 { return (e.hash<<slotBits | uint64(e.slot())) + firstCookie }

// search returns where name is, or where its hash begins.
func search(ents []dirent, hash uint64, name string) (int, bool) {
	lo, _ := slices.BinarySearchFunc(ents, hash, func(e dirent, h uint64) int {
		if e.hash < h {
			return -1
		}
		return 1
	})
	for i := lo; i < len(ents) && ents[i].hash == hash; i++ {
		if ents[i].name == name {
			return i, true
		}
	}
	return lo, false
}

// loadDir returns the body of a directory page at a depth.
func (p *page) loadDir(src *Source, depth int, keep bool) (*body, error) {
	if depth >= maxDirDepth {
		return p.load(src, keep, kindDirLeaf, kindDirLeaf)
	}
	return p.load(src, keep, kindDirLeaf, kindDirInner)
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
	for depth := 0; p != nil; depth++ {
		b, err := p.loadDir(src, depth, true)
		if err != nil {
			return Dirent{}, false, err
		}
		if b.kind == kindDirLeaf {
			if i, ok := search(b.ents, hash, name); ok {
				return b.ents[i].dirent(), true, nil
			}
			break
		}
		p = b.kids[nibble(hash, depth)]
	}
	return Dirent{}, false, nil
}

// Insert adds an entry, or points the entry of that name elsewhere. The
// directory must belong to an inode that epoch owns.
func (d *Dir) Insert(src *Source, epoch uint64, e Dirent) error {
	_, err := insertBelow(src, epoch, &d.root, 0, dirent{
		hash: hashName(e.Name), ino: e.Ino, name: e.Name, tag: uint16(e.Type >> 12 & 15),
	})
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
	return removeBelow(src, epoch, &d.root, 0, hashName(name), name)
}

// ownDir makes *pp a page that epoch may change and returns it with its body.
func ownDir(src *Source, epoch uint64, pp **page, depth int) (*page, *body, error) {
	p := *pp
	b, err := p.loadDir(src, depth, true)
	if err != nil || p.epoch == epoch {
		return p, b, err
	}
	c := &body{kind: b.kind}
	if b.kind == kindDirLeaf {
		c.ents = append(make([]dirent, 0, len(b.ents)+1), b.ents...)
	} else {
		c.kids = append(make([]*page, 0, dirFan), b.kids...)
	}
	n := newPage(epoch, c)
	n.n = p.n
	*pp = n
	return n, c, nil
}

// buildDir returns the page, of the one shape that there is, for entries in
// order. It keeps ents.
func buildDir(epoch uint64, ents []dirent, depth int) *page {
	var p *page
	if len(ents) <= maxDirLeaf || depth >= maxDirDepth {
		p = newPage(epoch, &body{kind: kindDirLeaf, ents: ents})
	} else {
		p = newPage(epoch, innerDir(epoch, ents, depth))
	}
	p.n = len(ents)
	return p
}

func innerDir(epoch uint64, ents []dirent, depth int) *body {
	b := &body{kind: kindDirInner, kids: make([]*page, dirFan)}
	for i, part := range splitDir(ents, depth) {
		if len(part) > 0 {
			b.kids[i] = buildDir(epoch, slices.Clone(part), depth+1)
		}
	}
	return b
}

// splitDir cuts entries in order into those of each kid. The parts alias ents.
func splitDir(ents []dirent, depth int) (parts [dirFan][]dirent) {
	for len(ents) > 0 {
		i := nibble(ents[0].hash, depth)
		n := 1
		for n < len(ents) && nibble(ents[n].hash, depth) == i {
			n++
		}
		parts[i] = ents[:n:n]
		ents = ents[n:]
	}
	return parts
}

func insertBelow(src *Source, epoch uint64, pp **page, depth int, e dirent) (added bool, err error) {
	if *pp == nil {
		*pp = buildDir(epoch, []dirent{e}, depth)
		return true, nil
	}
	p, b, err := ownDir(src, epoch, pp, depth)
	if err != nil {
		return false, err
	}
	if b.kind == kindDirInner {
		added, err = insertBelow(src, epoch, &b.kids[nibble(e.hash, depth)], depth+1, e)
		if added {
			p.n++
		}
		return added, err
	}
	i, found := search(b.ents, e.hash, e.name)
	if found {
		old := &b.ents[i]
		old.ino = e.ino
		old.tag = old.tag&^15 | e.tag
		return false, nil
	}
	free := 0
	for i < len(b.ents) && b.ents[i].hash == e.hash && b.ents[i].slot() == free {
		i++
		free++
	}
	if free == maxCollisions {
		return false, ErrDirFull
	}
	e.tag |= uint16(free) << 4
	b.ents = slices.Insert(b.ents, i, e)
	p.n++
	if len(b.ents) > maxDirLeaf {
		p.mem.Store(innerDir(epoch, b.ents, depth))
	}
	return true, nil
}

// removeBelow takes out an entry that is known to be there.
func removeBelow(src *Source, epoch uint64, pp **page, depth int, hash uint64, name string) error {
	p, b, err := ownDir(src, epoch, pp, depth)
	if err != nil {
		return err
	}
	if b.kind == kindDirInner && p.n == maxDirLeaf+1 {
		ents, err := appendEntries(src, p, depth, make([]dirent, 0, p.n))
		if err != nil {
			return err
		}
		b = &body{kind: kindDirLeaf, ents: ents}
		p.mem.Store(b)
	}
	if b.kind == kindDirInner {
		if err := removeBelow(src, epoch, &b.kids[nibble(hash, depth)], depth+1, hash, name); err != nil {
			return err
		}
	} else if i, ok := search(b.ents, hash, name); ok {
		b.ents = slices.Delete(b.ents, i, i+1)
	} else {
		return ErrNotExist
	}
	if p.n--; p.n == 0 {
		*pp = nil
	}
	return nil
}

// appendEntries appends everything below p, in order.
func appendEntries(src *Source, p *page, depth int, to []dirent) ([]dirent, error) {
	b, err := p.loadDir(src, depth, true)
	if err != nil {
		return nil, err
	}
	to = append(to, b.ents...)
	for _, k := range b.kids {
		if k != nil {
			if to, err = appendEntries(src, k, depth+1, to); err != nil {
				return nil, err
			}
		}
	}
	return to, nil
}

// List calls fn for every entry whose cookie is above after, in order of cookies,
// until fn answers false. A cookie is at least 16 and below 2^63, and an entry
// keeps it as long as it lives; so a listing that goes on later from a cookie
// meets each entry that was there all the time exactly once, whatever came and
// went. An after of 0 begins at the start.
func (d *Dir) List(src *Source, after uint64, fn func(e Dirent, cookie uint64) bool) error {
	if d.root == nil {
		return nil
	}
	var hash uint64
	slot := 0 // the first place to list
	if after >= firstCookie {
		at := after - firstCookie + 1
		hash, slot = at>>slotBits, int(at%maxCollisions)
	}
	_, err := listBelow(src, d.root, 0, hash, slot, fn)
	return err
}

func listBelow(src *Source, p *page, depth int, hash uint64, slot int, fn func(Dirent, uint64) bool) (more bool, err error) {
	b, err := p.loadDir(src, depth, true)
	if err != nil {
		return false, err
	}
	if b.kind == kindDirLeaf {
		for i := range b.ents {
			if e := &b.ents[i]; !e.before(hash, slot) && !fn(e.dirent(), e.cookie()) {
				return false, nil
			}
		}
		return true, nil
	}
	if hash>>nameBits != 0 {
		return true, nil
	}
	for i := nibble(hash, depth); i < dirFan; i++ {
		if i > nibble(hash, depth) {
			hash, slot = 0, 0
		}
		if k := b.kids[i]; k != nil {
			if more, err := listBelow(src, k, depth+1, hash, slot, fn); err != nil || !more {
				return false, err
			}
		}
	}
	return true, nil
}
