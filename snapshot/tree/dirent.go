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

// CheckName returns an error if name cannot be the name of a directory entry: errs.NameTooLong above
// 255 bytes, errs.Invalid for an empty name, ".", "..", or one with a slash or a zero byte.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return errs.Invalid
	case len(name) > 255:
		return errs.NameTooLong
	}
	return nil
}

// dirent is an entry of a page.
type dirent struct {
	Dirent
	key uint64 // hash << slotBits | slot
}

func (e *dirent) hash() uint64 { return e.key >> slotBits }
func (e *dirent) slot() int    { return int(e.key % maxCollisions) }

// cookie is the position of an entry in a listing, see Dir.List.
func (e *dirent) cookie() uint64 { return e.key + firstCookie }

// entries are entries of one page, ordered by hash and then by slot. The slot makes the cookies of
// names with equal hashes different. An entry keeps its slot as long as it exists.
type entries []dirent

// search returns the index of name, and true. If l does not contain name, it returns the index of
// the first entry whose hash is not lower, and false.
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

// runLength returns the number of entries from index i on that have this hash.
func (l entries) runLength(i int, hash uint64) (n int) {
	for i+n < len(l) && l[i+n].hash() == hash {
		n++
	}
	return n
}
