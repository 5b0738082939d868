package tree

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/amberfs/amberfs/internal/errs"
)

// Dirent is one entry of a directory.
type Dirent struct {
	Name string
	Ino  uint64
	Type uint32 // S_IFMT part of the inode's mode
}

// CheckName refuses what cannot be the name of a directory entry.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return errs.Invalid
	case len(name) > 255:
		return errs.NameTooLong
	}
	return nil
}

// dirent is an entry as pages hold it, but for the bytes of its name.
type dirent struct {
	key uint64 // hash << slotBits | slot
	ref uint64 // inode number, type >> 12, length of the name, its offset: 36, 4, 8 and 16 bits
}

const (
	offBits  = 16
	lenBits  = 8
	inoShift = offBits + lenBits + typeBits
)

func newRef(ino uint64, typ uint32, size, off int) uint64 {
	return ino<<inoShift | uint64(typ>>12)<<(offBits+lenBits) | uint64(size)<<offBits | uint64(off)
}

func (e dirent) hash() uint64 { return e.key >> slotBits }
func (e dirent) slot() int    { return int(e.key % maxCollisions) }
func (e dirent) ino() uint64  { return e.ref >> inoShift }
func (e dirent) typ() uint32  { return uint32(e.ref>>(offBits+lenBits)%(1<<typeBits)) << 12 }
func (e dirent) size() int    { return int(e.ref >> offBits % (1 << lenBits)) }
func (e dirent) off() int     { return int(e.ref % (1 << offBits)) }

// before reports whether the entry's place is before that of a slot of a hash.
func (e dirent) before(hash uint64, slot int) bool { return e.key < hash<<slotBits|uint64(slot) }

// cookie is the place of an entry in the listing: at least 16, below 2^63.
func (e dirent) cookie() uint64 { return e.key + firstCookie }

// entries are those of a page, or a part of them, in order of hash, then slot: the slot
// tells names of equal hash apart in listing cookies, and an entry keeps it for life.
type entries struct {
	list []dirent
	// names has the names. What an entry's name is made of is never changed, as names
	// that were handed out are parts of it: it is appended to, and when it is full a new
	// one is made of what is still in use.
	names []byte
}

func (l *entries) name(i int) string {
	e := l.list[i]
	return unsafe.String(&l.names[e.off()], e.size())
}

func (l *entries) dirent(i int) Dirent {
	return Dirent{Name: l.name(i), Ino: l.list[i].ino(), Type: l.list[i].typ()}
}

// part returns entries i to j. Nothing can be added to them.
func (l *entries) part(i, j int) entries { return entries{l.list[i:j:j], l.names} }

// clone returns a copy with room for more entries, and for bytes of their names.
func (l *entries) clone(more, bytes int) entries {
	for _, e := range l.list {
		bytes += e.size()
	}
	c := entries{make([]dirent, 0, len(l.list)+more), make([]byte, 0, bytes)}
	for i, e := range l.list {
		c.insert(i, e.key, l.dirent(i))
	}
	return c
}

// insert adds an entry, for which there must be room to have it added in place.
func (l *entries) insert(i int, key uint64, e Dirent) {
	l.list = slices.Insert(l.list, i, dirent{key, newRef(e.Ino, e.Type, len(e.Name), len(l.names))})
	l.names = append(l.names, e.Name...)
}

// withRoom makes room for one more entry, and for a quarter of them if there was none:
// what append adds is half of the memory of small directories.
func (l *entries) withRoom(name string) {
	if len(l.list) < cap(l.list) && len(l.names)+len(name) <= cap(l.names) {
		return
	}
	used := 0
	for _, e := range l.list {
		used += e.size()
	}
	*l = l.clone(len(l.list)/4+4, used/4+len(name))
}

// remove takes an entry out.
func (l *entries) remove(i int) { l.list = slices.Delete(l.list, i, i+1) }

// search returns where name is, or where its hash begins.
func (l *entries) search(hash uint64, name string) (int, bool) {
	lo, _ := slices.BinarySearchFunc(l.list, hash, func(e dirent, h uint64) int {
		if e.hash() < h {
			return -1
		}
		return 1
	})
	for i := lo; i < len(l.list) && l.list[i].hash() == hash; i++ {
		if l.name(i) == name {
			return i, true
		}
	}
	return lo, false
}

// run returns how many entries from i on have a hash.
func (l *entries) run(i int, hash uint64) (n int) {
	for i+n < len(l.list) && l.list[i+n].hash() == hash {
		n++
	}
	return n
}
