package cas

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/amberfs/amberfs/internal/guard"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A database is the Badger database of an index. It holds nothing that the packs do
// not, so one that may be wrong is built anew.
type database struct {
	dir  string // "" in memory
	o    badger.Options
	room func() error // whether there is room to write; nil: yes
	open handles

	written atomic.Uint64 // number of the last transaction
	checked atomic.Int64  // ns since 1970 when recheck looked

	torn   atomic.Bool   // a read of Badger's panicked, and Badger may wait for its end
	failed *atomic.Int32 // times that Badger could not write a table, and tries again
}

var (
	// errIndexBroken: the index cannot be used and must be built anew.
	errIndexBroken = errors.New("the index does not open")
	// errIndexUnfit: the same, but that is no damage: so may a kill have left it.
	errIndexUnfit = fmt.Errorf("%w, as it may after a kill", errIndexBroken)
	errIndexGone  = errors.New("the index is missing")
	// errIndexRead: something in the index cannot be read.
	errIndexRead = errors.New("read index")
)

// openingMark lies in the index directory while Badger opens it. Some damage
// makes Badger end the process; whoever finds the mark knows not to try again.
// It is also put there when something cannot be read, so that the next Open
// builds the index anew.
const openingMark = "OPENING"

// openDatabase opens or creates the one in dir; dir "" makes one in memory.
func openDatabase(dir string, log *slog.Logger) (*database, error) {
	failed := new(atomic.Int32)
	o := badger.DefaultOptions(dir).
		WithLogger(badgerLog{log, failed}).
		WithInMemory(dir == "").
		// db.Sync does not cover memtables that were rotated away, so every
		// transaction is synced; they are few and large.
		WithSyncWrites(true).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false). // one writer at a time, see index.writing
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0). // it serves encrypted tables only
		WithMemTableSize(memtable).
		WithNumMemtables(2).
		WithBaseTableSize(memtable).
		WithNumLevelZeroTables(3). // bounds what a compaction writes at once
		WithNumCompactors(2).
		WithMetricsEnabled(false).
		// Values in the value log can come back empty without an error, and
		// its space is hard to get back: keep every value in the tables.
		WithValueThreshold(memtable / 8). // Badger allows 15 % of a memtable
		WithValueLogFileSize(1 << 20).
		WithChecksumVerificationMode(options.OnBlockRead)
	x := &database{dir: dir, o: o, failed: failed}
	if err := x.start(); err != nil {
		return nil, err
	}
	err := x.checkVersion()
	if err == nil {
		err = x.checkWritten()
	}
	if err != nil {
		_ = x.close()
		return nil, err
	}
	return x, nil
}

// start opens Badger for the first time.
func (x *database) start() error {
	if x.dir != "" {
		if err := prepareIndexDir(x.dir); err != nil {
			return err
		}
		if err := checkTables(x.dir, fullCheck); err != nil {
			return err
		}
	}
	db, err := openBadger(x.options())
	if err != nil {
		return err
	}
	x.open.now = &handle{db: db, writes: true}
	if x.dir == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(x.dir, openingMark)); err != nil {
		_ = db.Close()
		return fmt.Errorf("open index: %w", err)
	}
	x.restLater(restAfter)
	return nil
}

// options are without compactions if there is no room for them: Badger writes them
// through mappings, and a page without a block on the disk ends the process.
func (x *database) options() badger.Options {
	if x.dir == "" {
		return x.o
	}
	if free, err := vfs.OS.Free(x.dir); err == nil && free >= headroom+min(x.bytes(), headroomMax) {
		return x.o
	}
	return x.o.WithNumCompactors(0).WithNumLevelZeroTablesStall(tablesUncompacted)
}

// tablesUncompacted are more tables of the highest level than are ever made without a
// compaction: for more of them Badger would wait for one.
const tablesUncompacted = 1000

// openBadger tells apart why Badger does not open. Only damage may lead to the
// index being thrown away.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			db, err = nil, fmt.Errorf("%w: %v", errIndexBroken, r)
		}
		if err != nil && !errors.Is(err, errIndexBroken) && o.Dir != "" {
			_ = os.Remove(filepath.Join(o.Dir, openingMark))
		}
	}()
	db, err = badger.Open(o)
	if err == nil {
		return db, nil
	}
	if strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return nil, fmt.Errorf("%w: %v", ErrInUse, err)
	}
	for _, e := range []error{fs.ErrPermission, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EROFS} {
		if errors.Is(err, e) {
			return nil, fmt.Errorf("open index: %w", err)
		}
	}
	if wasKilled(o.Dir) {
		return nil, fmt.Errorf("%w: %v", errIndexUnfit, err)
	}
	return nil, fmt.Errorf("%w: %v", errIndexBroken, err)
}

func (x *database) checkVersion() error {
	have, err := x.value([]byte{keyVersion})
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
		return fmt.Errorf("%w: %v", errIndexBroken, err)
	}
	if err == nil {
		if string(have) != indexVersion {
			return fmt.Errorf("%w: it has format %q", errIndexUnfit, have)
		}
		return nil
	}
	// Every index begins with its version.
	if err := x.each(nil, false, func(_, _ []byte) error { return errIndexBroken }); err != nil {
		return fmt.Errorf("%w: its beginning is missing", errIndexBroken)
	}
	b := x.batch(nil)
	b.set([]byte{keyVersion}, []byte(indexVersion))
	return b.commit()
}

// checkWritten looks whether any of the last transactions is missing. Badger does not
// notice when one of several logs is lost.
func (x *database) checkWritten() error {
	numbers, last := map[uint64]bool{}, uint64(0)
	err := x.each([]byte{keyWritten}, true, func(_, v []byte) error {
		if len(v) != 8 {
			return errIndexValue
		}
		n := binary.LittleEndian.Uint64(v)
		numbers[n], last = true, max(last, n)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errIndexBroken, err)
	}
	for n := last; n > 0 && n+lastWritten > last; n-- {
		if !numbers[n] {
			return fmt.Errorf("%w: of %d transactions, number %d is missing", errIndexBroken, last, n)
		}
	}
	x.written.Store(last)
	return nil
}

// mapped calls what reads files that Badger has mapped. It trusts them, and a page that
// the disk does not give, or that was cut off, is a SIGBUS. Here that, too, is an error.
func mapped(fn func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return guard.Do(fn)
}

func (x *database) mapped(fn func() error) error {
	err := mapped(fn)
	var p *guard.Panic
	if errors.As(err, &p) {
		x.torn.Store(true)
	}
	return err
}

func (x *database) view(fn func(*badger.Txn) error) error {
	h, err := x.use(false)
	if err != nil {
		return err
	}
	defer x.done(h)
	return x.mapped(func() error { return h.db.View(fn) })
}

// value returns a copy of the value of a key.
func (x *database) value(key []byte) ([]byte, error) {
	var v []byte
	err := x.view(func(t *badger.Txn) error {
		i, err := t.Get(key)
		if err == nil {
			v, err = i.ValueCopy(nil)
		}
		return err
	})
	return v, err
}

// object finds an object.
func (x *database) object(h Hash) (l loc, ok bool, err error) {
	key := objectKey(h)
	err = x.view(func(t *badger.Txn) error {
		i, err := t.Get(key)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return i.Value(func(v []byte) error {
			l, ok = decodeLoc(v)
			if !ok {
				return errIndexValue
			}
			return nil
		})
	})
	if err != nil {
		return loc{}, false, x.unreadable(err)
	}
	return l, ok, nil
}

// unreadable wraps an error of reading and has the index built anew at the next
// opening.
func (x *database) unreadable(err error) error {
	if x.dir != "" && !errors.Is(err, badger.ErrDBClosed) {
		// If the mark cannot be made, the error comes up again, that is all.
		_ = os.WriteFile(filepath.Join(x.dir, openingMark), []byte(err.Error()), 0o600)
	}
	return fmt.Errorf("%w: %w", errIndexRead, err)
}

// each calls fn with every key of a prefix, in order. The slices are only valid
// during the call.
func (x *database) each(prefix []byte, values bool, fn func(key, value []byte) error) error {
	var stop error // of fn
	err := x.view(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = prefix
		o.PrefetchValues = false // values lie beside the keys
		it := t.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			i := it.Item()
			if !values {
				if stop = fn(i.Key(), nil); stop != nil {
					return nil
				}
				continue
			}
			err := i.Value(func(v []byte) error { stop = fn(i.Key(), v); return nil })
			if err != nil || stop != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return x.unreadable(err)
	}
	return stop
}

// bytes is the disk that the index occupies.
func (x *database) bytes() int64 {
	if x.dir == "" {
		return 0
	}
	infos, err := vfs.OS.ReadDir(x.dir)
	if err != nil {
		return 0
	}
	n := int64(0)
	for _, i := range infos {
		n += i.Allocated
	}
	return n
}

// close is ErrStuck if the index cannot be written.
func (x *database) close() error {
	x.open.mu.Lock()
	defer x.open.mu.Unlock()
	if x.open.rest != nil {
		x.open.rest.Stop()
	}
	h := x.open.now
	x.open.now = nil
	err := x.open.err
	if h != nil {
		err = x.shut(h)
	}
	return errors.Join(err, x.open.unlock())
}

// shut closes Badger, or is ErrStuck: Badger tries for ever to write a table.
func (x *database) shut(h *handle) error {
	before, began := x.failed.Load(), time.Now()
	done := make(chan error, 1)
	go func() { done <- guard.Do(h.db.Close) }()
	look := time.NewTicker(stuckTick)
	defer look.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("close index: %w", err)
			}
			return nil
		case <-look.C:
			if x.failed.Load()-before >= stuckTries || x.torn.Load() && time.Since(began) > tornTime {
				return fmt.Errorf("close index: %w", ErrStuck)
			}
		}
	}
}

// Badger tries every second to write a table.
const (
	stuckTries = 3
	stuckTick  = 100 * time.Millisecond
	tornTime   = time.Second // for what it does at its end
)

// badgerLog passes on what Badger finds worth a warning.
type badgerLog struct {
	log    *slog.Logger
	failed *atomic.Int32
}

func (l badgerLog) Errorf(f string, a ...any) {
	if strings.Contains(f, "flushing memtable to disk") {
		l.failed.Add(1)
	}
	l.log.Error("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Warningf(f string, a ...any) {
	l.log.Warn("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Infof(string, ...any)  {}
func (l badgerLog) Debugf(string, ...any) {}
