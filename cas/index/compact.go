package index

import (
	"reflect"
	"unsafe"

	"github.com/amberfs/amberfs/internal/guard"
)

const (
	// maxLevel0Tables is the number of tables at which level 0 exceeds its size. A look-up searches all
	// tables of level 0.
	maxLevel0Tables = 8
	// baseLevelSize is the size in bytes of the level into which level 0 is merged. Each further level is
	// ten times as large as the level before it.
	baseLevelSize = 32 << 20
)

// A compactionPriority has the layout of badger.compactionPriority. If targets is zero, Badger chooses
// the targets.
type compactionPriority struct {
	level           int
	score, adjusted float64
	dropPrefixes    [][]byte
	targets         struct {
		baseLevel        int
		targetSz, fileSz []int64
	}
}

// compact merges level 0 with the level that Badger chooses, or one table of another level with
// the next level. Badger exports only Flatten, which merges all levels.
//
//go:linkname compact github.com/dgraph-io/badger/v4.(*levelsController).doCompact
func compact(levels unsafe.Pointer, id int, c compactionPriority) error

// foregroundCompactorID is the compactor id of a compaction that the caller runs itself. Badger's Flatten uses this
// number, too.
const foregroundCompactorID = 175

// Compact merges the levels that exceed their sizes, or all levels. The caller calls it after a batch,
// and allows no other writer. Before each merge Compact calls checkRoom with the number of bytes that the
// merge may write. If checkRoom returns an error, Compact returns this error.
func (x *DB) Compact(all bool, checkRoom func(bytes int64) error) error {
	x.stopPool()

	for {
		// lowestOver is the number of the lowest level that exceeds its size, -1 if no level does.
		levels, lowestOver, size := x.db.Levels(), -1, int64(0)
		for _, l := range levels {
			if size += l.Size; lowestOver < 0 && l.Score >= 1 {
				lowestOver = l.Level
			}
		}

		switch {
		case all && levels[0].NumTables > 1:
			if err := checkRoom(size); err != nil {
				return err
			}
			return guard.Do(func() error { return x.db.Flatten(1) })

		case lowestOver < 0:
			return nil
		}

		if err := checkRoom(min(size, levels[0].Size+2*baseLevelSize)); err != nil {
			return err
		}

		lc := reflect.ValueOf(x.db).Elem().FieldByName("lc").UnsafePointer()
		if err := guard.Do(func() error { return compact(lc, foregroundCompactorID, compactionPriority{level: lowestOver}) }); err != nil {
			return err
		}
	}
}

// Tables returns the number of tables of all levels, and of level 0.
func (x *DB) Tables() (all, level0 int) {
	for _, l := range x.db.Levels() {
		if all += l.NumTables; l.Level == 0 {
			level0 = l.NumTables
		}
	}
	return all, level0
}
