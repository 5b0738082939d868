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

// dirent is an entry as pages hold it. Entries are in order of hash, then slot:
// the slot tells names of equal hash apart in listing cookies, and an entry keeps
// it for life.
type dirent struct {
	key  uint64 // hash << slotBits | slot
	ref  uint64 // inode number << typeBits | type >> 12
	name string
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

// newDirent returns an entry in slot 0. Of typ the lowest four bits count.
func newDirent(hash, ino uint64, typ uint32, name string) dirent {
	return dirent{key: hash << slotBits, ref: ino<<typeBits | uint64(typ)&(1<<typeBits-1), name: name}
}

func (e *dirent) hash() uint64 { return e.key >> slotBits }
func (e *dirent) slot() int    { return int(e.key % maxCollisions) }
func (e *dirent) ino() uint64  { return e.ref >> typeBits }
func (e *dirent) typ() uint32  { return uint32(e.ref % (1 << typeBits)) }

func (e *dirent) before(hash uint64, slot int) bool {
	return e.key < hash<<slotBits|uint64(slot)
}

func (e *dirent) dirent() Dirent { return Dirent{Name: e.name, Ino: e.ino(), Type: e.typ() << 12} }

// cookie is the place of an entry in the listing: at least 16, below 2^63.
func (e *dirent) cookie() uint64 { return e.key + firstCookie }

// search returns where name is, or where its hash begins.
func search(ents []dirent, hash uint64, name string) (int, bool) {
	lo, _ := slices.BinarySearchFunc(ents, hash, func(e dirent, h uint64) int {
		if e.hash() < h {
			return -1
		}
		return 1
	})
	for i := lo; i < len(ents) && ents[i].hash() == hash; i++ {
		if ents[i].name == name {
			return i, true
		}
	}
	return lo, false
}
