package index

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
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

// A DB is opened once and closed once.
type DB struct {
	dir        string // "" in memory
	db         *badger.DB
	failed     chan struct{} // Badger could not write a table, and tries again
	markedLogs int64         // value of logsInMemory when the mark was last made
	marked     bool          // because of a log in memory
	quiet      bool          // Badger's pool of buffers is gone
}

var (
	// ErrBroken: the index cannot be used and must be made again.
	ErrBroken = errors.New("the index does not open")
	// ErrRead: something in the index cannot be read.
	ErrRead = errors.New("read index")
	// ErrInUse: another process has the index open.
	ErrInUse = errs.New(errs.Busy, "the store is open in another process")
	// ErrStuck: the index cannot be closed, because its disk takes no more writes.
	ErrStuck = errors.New("the index cannot be written")
)

// Memtable is the size of Badger's memtables, and of a table of the lowest level, in
// bytes. A log has twice as much, which is allocated when it is made.
const Memtable = 1 << 20

// Create removes what is in dir and makes an empty index there.
func Create(dir string, log *slog.Logger, takeover bool) (*DB, error) {
	if err := remove(dir); err != nil {
		return nil, err
	}
	return Open(dir, log, takeover)
}

// Open opens or creates the index in dir; dir "" makes one in memory. With takeover, another
// process may still have it open, which writes nothing any more.
func Open(dir string, log *slog.Logger, takeover bool) (*DB, error) {
	x := &DB{dir: dir, failed: make(chan struct{}, stuckTries), markedLogs: logsInMemory.Load()}
	o := badger.DefaultOptions(dir).
		WithBypassLockGuard(takeover).
		WithLogger(badgerLog{log, x.failed}).
		WithInMemory(dir == "").
		// db.Sync does not cover memtables that were rotated away, so every
		// transaction is synced; they are few and large.
		WithSyncWrites(true).
		WithNumVersionsToKeep(1).
		WithDetectConflicts(false). // the caller has one writer at a time
		WithCompression(options.None).
		WithBlockCacheSize(0).
		WithIndexCacheSize(0). // it serves encrypted tables only
		WithMemTableSize(Memtable).
		WithNumMemtables(2).
		WithBaseTableSize(Memtable).
		// Compactors look for work all the time, and take the processors from
		// requests: Flush does their work when it is due.
		WithNumCompactors(0).
		WithNumLevelZeroTablesStall(math.MaxInt).
		WithNumLevelZeroTables(freshTables).
		WithBaseLevelSize(baseLevel).
		WithMetricsEnabled(false).
		// Values in the value log can come back empty without an error, and
		// its space is hard to get back: keep every value in the tables.
		WithValueThreshold(Memtable / 8). // Badger allows 15 % of a memtable
		WithValueLogFileSize(1 << 20).
		WithChecksumVerificationMode(options.OnBlockRead)
	if dir != "" {
		if err := prepare(dir, takeover); err != nil {
			return nil, err
		}
	}
	var err error
	if x.db, err = openBadger(o); err != nil {
		return nil, err
	}
	if dir == "" {
		return x, nil
	}
	if err := unmark(dir); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	x.stopPool()
	return x, nil
}

// stopPool releases Badger's pool of buffers, which wakes up every two seconds to look
// whether it has some to spare, and without which Badger works as well. There is no
// option for that. No table may be under construction: then there is one log. No other
// goroutine writes meanwhile.
func (x *DB) stopPool() {
	logs, err := filepath.Glob(filepath.Join(x.dir, "*.mem"))
	if x.quiet || x.dir == "" || err != nil || len(logs) != 1 {
		return
	}
	x.quiet = true
	// What made the last table has given its buffer back: its log was removed after that, under
	// a lock that a look into the tables takes as well.
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

// openBadger tells apart why Badger does not open. Only damage may lead to the
// index being thrown away.
func openBadger(o badger.Options) (db *badger.DB, err error) {
	defer func() {
		if err != nil && !errors.Is(err, ErrBroken) && o.Dir != "" {
			_ = unmark(o.Dir)
		}
	}()
	err = mapped(func() error {
		if err := checkTables(o); err != nil {
			return err
		}
		db, err = badger.Open(o)
		return err
	})
	if err == nil {
		return db, nil
	}
	if strings.Contains(err.Error(), "Cannot acquire directory lock") {
		return nil, fmt.Errorf("%w: %v", ErrInUse, err)
	}
	if e := refusal(err); e != nil {
		return nil, fmt.Errorf("open index: %w (%v)", e, err)
	}
	if errors.Is(err, ErrTable) {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %v", ErrBroken, err)
}

// refusal returns the error of the system because of which the index could not be read, such as
// EMFILE: it says nothing about the index. Of some errors Badger keeps the text alone.
func refusal(err error) error {
	if errno := errs.ShortageIn(err); errno != 0 {
		return errno
	}
	for _, e := range []error{fs.ErrPermission, syscall.EROFS} {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}

// mapped calls what reads files that Badger has mapped. A page that the disk does not
// give, or that was cut off, is a SIGBUS, and what is malformed a panic. Here these, too,
// are errors.
func mapped(fn func() error) error {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	err := guard.Do(fn)
	var p *guard.Panic
	if errors.As(err, &p) {
		err = fmt.Errorf("malformed: %v", p.Value)
	}
	return err
}

func (x *DB) view(fn func(*badger.Txn) error) error {
	return mapped(func() error { return x.db.View(fn) })
}

// Get returns a copy of the value of a key, if it is there.
func (x *DB) Get(key []byte) (v []byte, ok bool, err error) {
	err = x.view(func(t *badger.Txn) error {
		i, err := t.Get(key)
		if err == nil {
			v, err = i.ValueCopy(nil)
		}
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, x.Unreadable(err)
	}
	return v, true, nil
}

// Unreadable wraps an error of reading. The next Open finds the index broken.
func (x *DB) Unreadable(err error) error {
	if x.dir != "" && !errors.Is(err, badger.ErrDBClosed) {
		_ = mark(x.dir) // if it cannot be made, the error comes up again
	}
	return fmt.Errorf("%w: %w", ErrRead, err)
}

// markLogsInMemory leaves the mark if a log of Badger's is not on the disk.
func (x *DB) markLogsInMemory() error {
	n := logsInMemory.Load()
	if x.dir == "" || n == x.markedLogs {
		return nil
	}
	if err := mark(x.dir); err != nil {
		return err
	}
	x.markedLogs, x.marked = n, true
	return nil
}

// Each calls fn with every key of a prefix, in order. The slices are only valid
// during the call.
func (x *DB) Each(prefix []byte, fn func(key, value []byte) error) error {
	var stop error // of fn
	err := x.view(func(t *badger.Txn) error {
		o := badger.DefaultIteratorOptions
		o.Prefix = prefix
		o.PrefetchValues = false // values lie beside the keys
		it := t.NewIterator(o)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			i := it.Item()
			err := i.Value(func(v []byte) error { stop = fn(i.Key(), v); return nil })
			if err != nil || stop != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return x.Unreadable(err)
	}
	return stop
}

// Check compares all tables with their checksums. Badger takes a block with a wrong one
// for one without the key that is looked for.
func (x *DB) Check() error {
	if err := mapped(x.db.VerifyChecksum); err != nil {
		return x.Unreadable(err)
	}
	return nil
}

// Close is ErrStuck if the index cannot be written: Badger tries forever.
func (x *DB) Close() error {
	for len(x.failed) > 0 {
		<-x.failed // failed before
	}
	done := make(chan error, 1)
	go func() { done <- mapped(x.db.Close) }()
	for range stuckTries {
		select {
		case err := <-done:
			if err == nil && x.marked {
				err = unmark(x.dir) // all is in tables now
			}
			if err != nil {
				return fmt.Errorf("close index: %w", err)
			}
			return nil
		case <-x.failed:
		}
	}
	return fmt.Errorf("close index: %w", ErrStuck)
}

// stuckTries is how often closing tries to write a table. Badger does every second.
const stuckTries = 3

// badgerLog passes on what Badger finds worth a warning.
type badgerLog struct {
	log    *slog.Logger
	failed chan<- struct{}
}

func (l badgerLog) Errorf(f string, a ...any) {
	if strings.Contains(f, "flushing memtable to disk") {
		select {
		case l.failed <- struct{}{}:
		default: // no goroutine closes it
		}
	}
	l.log.Error("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Warningf(f string, a ...any) {
	l.log.Warn("index: " + strings.TrimSpace(fmt.Sprintf(f, a...)))
}

func (l badgerLog) Infof(string, ...any)  {}
func (l badgerLog) Debugf(string, ...any) {}
