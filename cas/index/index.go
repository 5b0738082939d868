package index

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/guard"
)

// A DB is an open index.
type DB struct {
	dir           string // "" if the index is in memory
	db            *badger.DB
	lockedDir     *os.File      // the directory, with the lock of the index; nil for an index in memory
	failedFlushes chan struct{} // one element for each failure of Badger to write a table
	logsAtMark    int64         // value of logsInMemory when the mark was last written
	markedForLog  bool          // the mark was written because a log is not on disk
	poolStopped   bool          // stopPool has removed Badger's pool of buffers
}

var (
	// ErrBroken: the index cannot be used and must be rebuilt.
	ErrBroken = errors.New("the index does not open")
	// ErrRead: an entry of the index cannot be read. The next Open returns ErrBroken.
	ErrRead = errors.New("read index")
	// ErrInUse: another process has the index open.
	ErrInUse = errs.New(errs.Busy, "the store is open in another process")
	// ErrStuck: the index cannot be closed, because writes to its disk fail.
	ErrStuck = errors.New("the index cannot be written")
)

// MemtableSize is the size in bytes of Badger's memtables, and of a table of the lowest level. A log is
// twice as large; its blocks are allocated when it is created.
const MemtableSize = 1 << 20

// Create removes the index in dir and creates an empty one.
func Create(dir string, log *slog.Logger, takeover bool) (*DB, error) {
	if err := removeDir(dir); err != nil {
		return nil, err
	}
	return Open(dir, log, takeover)
}

// Open opens or creates the index in dir. If dir is "", the index is in memory. With takeover, another
// process may still have the index open; that process must have stopped writing.
//
// Errors: ErrBroken, ErrInUse, or an error of the system, such as EMFILE, which does not mean that the
// index is damaged.
func Open(dir string, log *slog.Logger, takeover bool) (*DB, error) {
	x := &DB{dir: dir, failedFlushes: make(chan struct{}, stuckTries), logsAtMark: logsInMemory.Load()}
	o := badger.DefaultOptions(dir).
		WithBypassLockGuard(true). // Badger need not lock the directory: prepareDir takes the lock, and can wait for it
		WithLogger(badgerLog{log, x.failedFlushes}).
		WithInMemory(dir == "").
		// db.Sync does not cover memtables that were rotated away, so every
		// transaction is synced; they are few and large.
		WithSyncWrites(true).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false). // the caller has one writer at a time
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0). // only encrypted tables use it
		WithMemTableSize(MemtableSize).
		WithNumMemtables(2).
		WithBaseTableSize(MemtableSize).
		// Compactors look for work all the time, and take the processors from
		// requests: Compact does their work when it is due.
		WithNumCompactors(0).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithNumLevelZeroTables(maxLevel0Tables).
		WithBaseLevelSize(baseLevelSize).
		WithMetricsEnabled(false).
		// Values in the value log can be read back empty without an error, and its space is
		// hard to free: all values are in the tables.
		WithValueThreshold(MemtableSize / 8). // Badger allows 15 % of a memtable
		WithValueLogFileSize(1 << 20).
		WithChecksumVerificationMode(options.OnBlockRead)

	var err error
	if dir != "" {
		if x.lockedDir, err = prepareDir(dir, takeover); err != nil {
			return nil, err
		}
	}

	if x.db, err = openBadger(o); err != nil {
		_ = x.lockedDir.Close() // an index in memory has no lockedDir: then Close returns an error, which does not matter
		return nil, err
	}
	if dir == "" {
		return x, nil
	}
	if err := removeMark(dir); err != nil {
		return nil, errors.Join(err, x.Close())
	}

	x.stopPool()

	return x, nil
}

// stopPool removes Badger's pool of buffers. The pool wakes up every two seconds to free buffers, Badger
// does not need it, and no option disables it. Badger must not be writing a table at that time, because
// the writer uses the pool: so stopPool removes the pool only if Badger has a single log. The caller
// allows no other writer.
func (x *DB) stopPool() {
	logs, err := filepath.Glob(filepath.Join(x.dir, "*.mem"))
	if x.poolStopped || x.dir == "" || err != nil || len(logs) != 1 {
		return
	}

	x.poolStopped = true

	// This Get waits until the writer of the last table has returned its buffer to the pool. It takes a
	// lock that the writer takes before it returns the buffer, and holds until it has removed the
	// table's log.
	_ = x.db.View(func(txn *badger.Txn) error { _, err := txn.Get([]byte{0}); return err })
	f := reflect.ValueOf(x.db).Elem().FieldByName("allocPool")
	if !f.IsValid() || f.IsZero() {
		return
	}

	f = reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Elem()
	pool, ok := f.Interface().(interface{ Release() })
	if ok {
		f.SetZero()
		pool.Release()
	}
}

// openBadger opens Badger. It returns ErrBroken only if the index is damaged, because the caller then
// removes the index. All other errors are ErrInUse or errors of the system.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	// Remove the mark unless the index is damaged.
	defer func() {
		if err != nil && !errors.Is(err, ErrBroken) && o.Dir != "" {
			_ = removeMark(o.Dir)
		}
	}()

	err = recoverFaults(func() error {
		if err := checkTables(o); err != nil {
			return err
		}

		db, err = badger.Open(o)
		return err
	})
	if err == nil {
		return db, nil
	}

	if e := systemError(err); e != nil {
		return nil, fmt.Errorf("open index: %w (%v)", e, err)
	}
	if errors.Is(err, ErrDamagedTable) {
		return nil, err
	}

	return nil, fmt.Errorf("%w: %v", ErrBroken, err)
}

// systemError returns the error of the system, such as EMFILE, that prevented a read of the index, or
// nil if err has no such cause. An index with such an error need not be damaged. ShortageErrno also
// searches the text of err, because Badger passes on some errors as text.
func systemError(err error) error {
	if errno := errs.ShortageErrno(err); errno != 0 {
		return errno
	}

	for _, e := range []error{fs.ErrPermission, syscall.EROFS} {
		if errors.Is(err, e) {
			return e
		}
	}

	return nil
}

// recoverFaults calls fn, which reads files that Badger has mapped. It turns two results of damage into
// errors: a SIGBUS, for a page that the disk cannot read or that is after the end of the file, and
// a panic of Badger, for malformed bytes.
func recoverFaults(fn func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))

	err := guard.Do(fn)
	var p *guard.Panic
	if errors.As(err, &p) {
		err = fmt.Errorf("malformed: %v", p.Value)
	}

	return err
}

// view runs fn in a read-only transaction.
func (x *DB) view(fn func(*badger.Txn) error) error {
	return recoverFaults(func() error { return x.db.View(fn) })
}

// Get returns a copy of the value of a key. ok is false if the index does not have the key.
func (x *DB) Get(key []byte) (v []byte, ok bool, err error) {
	err = x.view(func(t *badger.Txn) error {
		i, err := t.Get(key)
		if err != nil {
			return err
		}

		v, err = i.ValueCopy(nil)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, x.MarkUnreadable(err)
	}

	return v, true, nil
}

// MarkUnreadable wraps an error of reading as ErrRead, and writes the mark with which the next Open returns
// ErrBroken.
func (x *DB) MarkUnreadable(err error) error {
	if x.dir != "" && !errors.Is(err, badger.ErrDBClosed) {
		_ = writeMark(x.dir) // without the mark the next read fails again
	}
	return fmt.Errorf("%w: %w", ErrRead, err)
}

// markLogsInMemory writes the mark if one of Badger's logs has no file, see mapAllocated: after a kill
// the index would lack the entries of this log.
func (x *DB) markLogsInMemory() error {
	n := logsInMemory.Load()
	if x.dir == "" || n == x.logsAtMark {
		return nil
	}
	if err := writeMark(x.dir); err != nil {
		return err
	}

	x.logsAtMark, x.markedForLog = n, true

	return nil
}

// Each calls fn with every key that begins with prefix, in the order of the keys. If fn returns an
// error, Each ends and returns it. The slices are only valid during the call of fn.
func (x *DB) Each(prefix []byte, fn func(key, value []byte) error) error {
	var fnErr error // the error of fn
	err := x.view(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = prefix
		o.PrefetchValues = false // the values are in the tables, like the keys
		it := t.NewIterator(o)
		defer it.Close()

		for it.Rewind(); it.Valid(); it.Next() {
			i := it.Item()
			err := i.Value(func(v []byte) error { fnErr = fn(i.Key(), v); return nil })
			if err != nil || fnErr != nil {
				return err
			}
		}

		return nil
	})
	if err != nil {
		return x.MarkUnreadable(err)
	}

	return fnErr
}

// Check compares all tables with their checksums. A look-up does not detect a wrong checksum: Badger
// then reports that the key is missing.
func (x *DB) Check() error {
	if err := recoverFaults(x.db.VerifyChecksum); err != nil {
		return x.MarkUnreadable(err)
	}
	return nil
}

// Close writes the memtable to a table and closes the index. Badger would try forever to write the table.
// After stuckTries failures, Close returns ErrStuck and leaves the index open.
func (x *DB) Close() error {
	for len(x.failedFlushes) > 0 {
		<-x.failedFlushes // discard earlier failures
	}

	done := make(chan error, 1)
	go func() { done <- recoverFaults(x.db.Close) }()

	for range stuckTries {
		select {
		case err := <-done:
			if err == nil && x.markedForLog {
				err = removeMark(x.dir) // all entries are in tables now, so the mark is not needed
			}
			_ = x.lockedDir.Close() // fails without effect for an index in memory, or if the index was closed before
			if err != nil {
				return fmt.Errorf("close index: %w", err)
			}
			return nil

		case <-x.failedFlushes:
		}
	}

	return fmt.Errorf("close index: %w", ErrStuck)
}

// stuckTries is the number of failures to write a table after which Close gives up. Badger tries every
// second.
const stuckTries = 3

// A badgerLog passes on Badger's warnings and errors, and counts its failures to write a table.
type badgerLog struct {
	log           *slog.Logger
	failedFlushes chan<- struct{}
}

func (l badgerLog) Errorf(f string, a ...any) {
	if strings.Contains(f, "flushing memtable to disk") {
		select {
		case l.failedFlushes <- struct{}{}:
		default: // the channel is full
		}
	}

	l.log.Error("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Warningf(f string, a ...any) {
	l.log.Warn("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Infof(string, ...any)  {}
func (l badgerLog) Debugf(string, ...any) {}
