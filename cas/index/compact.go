package index

import (
	"reflect"
	"unsafe"

	"github.com/amberfs/amberfs/internal/guard"
)

const (
	// freshTables is the number of tables at which level 0 exceeds its size. A look-up searches all
	// tables of level 0.
	freshTables = 8
	// baseLevel is the size in bytes of the level into which level 0 is merged. Each further level is
	// ten times as large as the level before it.
	baseLevel = 32 << 20
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

// foreground is the compactor id of a compaction that the caller runs itself. Badger's Flatten uses this
// number, too.
const foreground = 175

// Flush merges the levels that exceed their sizes, or all levels. The caller calls it after a batch,
// and allows no other writer. Before each merge Flush calls room with the number of bytes that the
// merge may write. If room returns an error, Flush returns this error.
func (x *DB) Flush(all bool, room func(bytes int64) error) error {
	x.stopPool()

	for {
		// over is the number of the lowest level that exceeds its size, -1 if no level does.
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
		if err := guard.Do(func() error { return compact(lc, foreground, compactionPriority{level: over}) }); err != nil {
			return err
		}
	}
}

// Tables returns the number of tables of all levels, and of level 0.
func (x *DB) Tables() (all, fresh int) {
	for _, l := range x.db.Levels() {
		if all += l.NumTables; l.Level == 0 {
			fresh = l.NumTables
		}
	}
	return all, fresh
}
