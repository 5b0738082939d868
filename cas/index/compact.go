package index

import (
	"reflect"
	"unsafe"

	"github.com/amberfs/amberfs/internal/guard"
)

const (
	// freshTables is how many tables lie side by side in level 0. A lookup asks each.
	freshTables = 8
	// baseLevel is the size in bytes up to which they are merged with one level. Each level below
	// it has ten times the size.
	baseLevel = 32 << 20
)

// compaction is laid out as badger.compactionPriority. Badger finds the targets if there are none.
type compaction struct {
	level           int
	score, adjusted float64
	dropPrefixes    [][]byte
	targets         struct {
		baseLevel        int
		targetSz, fileSz []int64
	}
}

// compact merges level 0 with the level that Badger chooses, or one table of another level with
// the next level. Badger exports only Flatten, which merges everything.
//
//go:linkname compact github.com/dgraph-io/badger/v4.(*levelsController).doCompact
func compact(levels unsafe.Pointer, id int, c compaction) error

// foreground is an id of no compactor, as Flatten has.
const foreground = 175

// Flush is called after a batch. It merges the levels that are over their size, or all if that is
// asked for. It needs room for what it writes. No other goroutine writes meanwhile.
func (x *DB) Flush(all bool, room func(bytes int64) error) error {
	x.stopPool()
	for {
		levels, over, size := x.db.Levels(), -1, int64(0)
		for _, l := range levels {
			if size += l.Size; over < 0 && l.Score >= 1 {
				over = l.Level
			}
		}
		switch {
		case all && levels[0].NumTables > 1:
			if err := room(size); err != nil {
				return err
			}
			return guard.Do(func() error { return x.db.Flatten(1) })
		case over < 0:
			return nil
		}
		if err := room(min(size, levels[0].Size+2*baseLevel)); err != nil {
			return err
		}
		lc := reflect.ValueOf(x.db).Elem().FieldByName("lc").UnsafePointer()
		if err := guard.Do(func() error { return compact(lc, foreground, compaction{level: over}) }); err != nil {
			return err
		}
	}
}

// Tables returns how many tables there are, and how many of them are in level 0.
func (x *DB) Tables() (all, fresh int) {
	for _, l := range x.db.Levels() {
		if all += l.NumTables; l.Level == 0 {
			fresh = l.NumTables
		}
	}
	return all, fresh
}
