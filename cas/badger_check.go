package cas

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2/z"

	"github.com/amberfs/amberfs/internal/guard"
)

// checkTables opens every table of the index. A table cut short makes Badger panic on
// a goroutine of its own, which ends the process, and one whose block index has a
// wrong checksum it leaves out with only a line in the log: objects would be missing
// silently. A table that the manifest does not name any more takes the last
// transactions with it, of which checkWritten and the offsets that packs are covered
// up to know.
//
// Tables of at most all bytes together are read wholly.
func checkTables(dir string, all int64) error {
	names, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		return fmt.Errorf("list tables of the index: %w", err)
	}
	total := int64(0)
	for _, name := range names {
		if fi, err := os.Stat(name); err == nil {
			total += fi.Size()
		}
	}
	for _, name := range names {
		if err := checkTable(name, total <= all); err != nil {
			return fmt.Errorf("%w: table %s: %v", errIndexBroken, filepath.Base(name), err)
		}
	}
	return nil
}

// checkTable opens a table as Badger does, where a panic harms nobody, and with all
// set reads the whole of it.
func checkTable(name string, all bool) error {
	mf, err := z.OpenMmapFile(name, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = mapped(func() error {
		t, err := table.OpenTable(mf, table.Options{ChkMode: options.OnBlockRead})
		if err == nil && all {
			err = t.VerifyChecksum()
		}
		return err
	})
	var p *guard.Panic
	if errors.As(err, &p) {
		err = fmt.Errorf("malformed: %v", p.Value)
	}
	return errors.Join(err, mf.Close(-1))
}

// fullCheck is the size of an index up to which opening it reads all of its
// tables, in bytes. Larger ones are read when something is not found.
const fullCheck = 128 << 20

// check reads all tables and compares the checksums. Badger takes a block with
// a wrong one for one without the key that is looked for.
func (x *database) check() (err error) {
	if x.dir == "" {
		return nil
	}
	h, err := x.use(false)
	if err != nil {
		return x.unreadable(err)
	}
	defer x.done(h)
	if err := x.mapped(h.db.VerifyChecksum); err != nil {
		return x.unreadable(err)
	}
	return nil
}

// recheck is check for a caller that has not found an object, which may have to be
// there. It reads the tables at most every so often.
func (x *database) recheck() error {
	now := time.Now().UnixNano()
	last := x.checked.Load()
	if now-last < int64(10*time.Second) || !x.checked.CompareAndSwap(last, now) {
		return nil
	}
	return x.check()
}
