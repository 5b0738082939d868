package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// copyNames are the names of the two files.
var copyNames = [2]string{"manifest", "manifest.copy"}

// minRewriteBytes is the number of bytes of commits up to which a log is not rewritten.
const minRewriteBytes = 128 << 10

// ErrLost: neither copy begins with an intact record.
var ErrLost = errs.New(errs.Damaged, "both copies of the catalogue are damaged or missing")

// Options are parameters of Open.
type Options struct {
	Logger   *slog.Logger // not nil
	AllowNew bool         // the store is empty, so a missing manifest is no error
	ReadOnly bool         // do not write to the disk
	// Salvage makes Open ignore the commits after a commit that is damaged in both copies. Open then
	// moves the old files to the folder quarantine.
	Salvage bool
	// CheckRoom returns an error if n bytes must not be written, because the disk is full.
	CheckRoom func(n int64) error
}

// A Manifest is an open manifest. It is safe for concurrent use.
//
// Locks: Commit holds writeMu while it writes the files, and takes dataMu while it changes the state.
type Manifest struct {
	fs  vfs.FS
	dir string
	o   Options

	writeMu       sync.Mutex
	copies        [2]copyFile // guarded by writeMu
	quarantineOld bool        // rewriteCopy moves the old file to the folder quarantine
	encoder       *zstd.Encoder

	dataMu sync.RWMutex
	state  state // readers hold dataMu or writeMu; Commit holds both when it changes the state
}

// Open opens the manifest of the store in dir, and creates it if Options.AllowNew is set. It rewrites a copy
// that is missing, damaged or shorter than the other copy. Errors: ErrLost; errs.Damaged if commits
// cannot be applied, because a commit before them is damaged in both copies; errs.Format; an error of
// the disk.
func Open(fsys vfs.FS, dir string, o Options) (*Manifest, error) {
	m := &Manifest{fs: fsys, dir: dir, o: o, encoder: newEncoder()}
	if err := m.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open manifest: %w", err), m.Close())
	}
	return m, nil
}

func (m *Manifest) path(name string) string { return filepath.Join(m.dir, name) }

func (m *Manifest) open() error {
	var scans [2]*copyScan
	for i := range copyNames {
		c, err := m.scanCopy(i)
		if err != nil {
			return err
		}
		scans[i] = c
	}

	usable, err := m.loadState(scans)
	if err != nil || m.o.ReadOnly {
		return err
	}

	// Intact copies stay in use, the others are rewritten.
	for i, c := range scans {
		if c.baseLen > 0 && c.damage == nil && c.seq == m.state.seq {
			if err := m.openCopy(i, c); err != nil {
				return err
			}
		}
	}

	for i, c := range scans {
		if damage := c.damageAt(m.state.seq); damage != nil && usable {
			m.o.Logger.Error("a copy of the manifest is damaged", "file", copyNames[i], "reason", damage)
		}
		if m.copies[i].File != nil {
			continue
		}

		err := m.rewriteCopy(i)
		if errors.Is(err, errs.Failed) || err != nil && len(m.openCopies()) == 0 {
			return err
		}
		if err != nil { // the disk may be full: one copy is enough
			m.o.Logger.Warn("for the time being there is one copy of the manifest", "err", err)
		}
	}

	m.quarantineOld = false

	return nil
}

// Commit makes ops durable: after a power cut either all of ops or none are in effect. No key may occur
// in ops twice. Get and Scan see ops when Commit returns. The caller must not change the values
// afterwards.
//
// Errors: the error of Options.CheckRoom or of the disk (then none of ops is in effect); errs.Failed if the
// content of the disk is unknown: then the manifest must be opened again.
func (m *Manifest) Commit(ops ...Op) error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()

	if err := m.checkRoom(ops); err != nil {
		return err
	}
	if err := m.appendRecord(ops); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}

	m.dataMu.Lock()
	for _, op := range ops {
		if err := m.state.apply(op); err != nil { // impossible: checkRoom has read the same entries
			m.dataMu.Unlock()
			return errs.New(errs.Failed, "%w", err)
		}
	}

	m.state.seq++
	m.dataMu.Unlock()

	if !m.mustRewrite() {
		return nil
	}

	for i := range m.copies {
		if err := m.rewriteCopy(i); errors.Is(err, errs.Failed) {
			return err
		} else if err != nil {
			m.o.Logger.Warn("the log of the manifest is not replaced", "err", err)
			break
		}
	}

	return nil
}

// checkRoom returns an error if the manifest has no room for the entries of a commit.
func (m *Manifest) checkRoom(ops []Op) error {
	entries, size := 0, int64(0)

	for _, op := range ops {
		n, bytes, err := m.state.growth(op)
		if err != nil {
			return err
		}
		entries, size = entries+n, size+bytes
	}
	if !m.state.fits(entries, size) {
		return errTooMuch
	}

	return nil
}

// Get returns a copy of the last committed value of a key. It returns false if the key has no value. The
// error is errs.Damaged.
func (m *Manifest) Get(key string) ([]byte, bool, error) {
	m.dataMu.RLock()
	defer m.dataMu.RUnlock()
	v, ok, err := m.state.get(key)
	return bytes.Clone(v), ok, err
}

// Scan calls fn for every key that begins with prefix, in the order of the keys. If fn returns an error,
// Scan ends and returns it. Other errors are errs.Damaged. fn does not see commits that are made while
// Scan runs, and must not change or keep value.
func (m *Manifest) Scan(prefix string, fn func(key string, value []byte) error) error {
	return m.Freeze(prefix)(fn)
}

// Freeze returns a function that does the work of Scan with the present entries, even if the entries have changed when
// the function is called.
func (m *Manifest) Freeze(prefix string) (scan func(fn func(key string, value []byte) error) error) {
	m.dataMu.RLock()
	defer m.dataMu.RUnlock()

	frozen := m.state.frozen(prefix)
	return func(fn func(key string, value []byte) error) error { return frozen.each(prefix, fn) }
}

// Verify reads both copies, and calls onDamage for each damaged copy. size is the number of bytes of both
// copies.
func (m *Manifest) Verify(onDamage func(file, reason string)) (size int64, err error) {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()

	for i, name := range copyNames {
		c, err := m.scanCopy(i)
		if err != nil {
			return 0, err
		}

		size += c.size
		damage := c.damageAt(m.state.seq)
		if damage == nil && !m.o.ReadOnly && c.seq != m.state.seq {
			damage = c.behindError(m.state.seq)
		}
		if damage != nil {
			onDamage(name, damage.Error())
		}
	}

	return size, nil
}

// Close closes the files.
func (m *Manifest) Close() error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()

	var err error
	for _, f := range m.openCopies() {
		err = errors.Join(err, f.Close())
		f.File = nil
	}

	return err
}
