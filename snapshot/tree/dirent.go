package tree

import (
	"slices"
	"strings"

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

// dirent is an entry as pages have it.
type dirent struct {
	Dirent
	key uint64 // hash << slotBits | slot
}

func (e *dirent) hash() uint64 { return e.key >> slotBits }
func (e *dirent) slot() int    { return int(e.key % maxCollisions) }

// cookie is the place of an entry in the listing: at least 16, below 2^63.
func (e *dirent) cookie() uint64 { return e.key + firstCookie }

// entries are those of a page, or a part of them, in order of hash, then slot: the slot
// tells names of equal hash apart in listing cookies, and an entry keeps it for life.
type entries []dirent

// search returns where name is, or where its hash begins.
func (l entries) search(hash uint64, name string) (int, bool) {
	lo, _ := slices.BinarySearchFunc(l, hash<<slotBits, func(e dirent, key uint64) int {
		if e.key < key {
			return -1
		}
		return 1
	})
	for i := lo; i < len(l) && l[i].hash() == hash; i++ {
		if l[i].Name == name {
			return i, true
		}
	}
	return lo, false
}

// run returns how many entries from i on have a hash.
func (l entries) run(i int, hash uint64) (n int) {
	for i+n < len(l) && l[i+n].hash() == hash {
		n++
	}
	return n
}
