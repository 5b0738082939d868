package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// names are the two copies.
var names = [2]string{"manifest", "manifest.copy"}

// slack is how many bytes of commits are not worth a new log.
const slack = 128 << 10

// ErrLost: neither copy can be used.
var ErrLost = errs.New(errs.Damaged, "both copies of the catalogue are damaged or missing")

// Options are the ways to open a manifest.
type Options struct {
	Logger   *slog.Logger // not nil
	New      bool         // the store is empty: it is no loss that there is no manifest
	ReadOnly bool         // change nothing on disk
	// Salvage opens an older state if commits behind damage cannot be applied. The files
	// with them are kept in the folder quarantine.
	Salvage bool
	// Room returns an error if n bytes must not be written, for the disk is full.
	Room func(n int64) error
}

// A Manifest is open metadata. It is safe for concurrent use.
//
// Locks: writing is held while a commit is written, and taken before data.
type Manifest struct {
	fs  vfs.FS
	dir string
	o   Options

	writing sync.Mutex
	copies  [2]file // guarded by writing
	aside   bool    // a copy that is replaced is kept in quarantine
	encoder *zstd.Encoder

	data  sync.RWMutex
	state state // guarded by data, changed with writing held too
}

// Open opens the manifest of the store in dir and makes one if there is none. A copy
// that is missing, damaged or behind is replaced. Errors: ErrLost, and errs.Damaged if
// there are commits that cannot be applied, because both copies lack one before them.
func Open(fsys vfs.FS, dir string, o Options) (*Manifest, error) {
	m := &Manifest{fs: fsys, dir: dir, o: o, encoder: newEncoder()}
	if err := m.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open manifest: %w", err), m.Close())
	}
	return m, nil
}

func (m *Manifest) path(name string) string { return filepath.Join(m.dir, name) }

func (m *Manifest) open() error {
	var found [2]*reading
	for i := range names {
		c, err := m.read(i)
		if err != nil {
			return err
		}
		found[i] = c
	}
	usable, err := m.load(found)
	if err != nil || m.o.ReadOnly {
		return err
	}
	for i, c := range found {
		if c.base > 0 && c.damage == nil && c.seq == m.state.seq {
			if err := m.resume(i, c); err != nil {
				return err
			}
		}
	}
	for i, c := range found {
		if damage := c.damaged(m.state.seq); damage != nil && usable {
			m.o.Logger.Error("a copy of the manifest is damaged", "file", names[i], "reason", damage)
		}
		if m.copies[i].File != nil {
			continue
		}
		err := m.rewriteCopy(i)
		if errors.Is(err, errs.Failed) || err != nil && len(m.inUse()) == 0 {
			return err
		}
		if err != nil { // the disk may be full
			m.o.Logger.Warn("for the time being there is one copy of the manifest", "err", err)
		}
	}
	m.aside = false
	return nil
}

// Commit makes ops durable, all of them or, if it fails or the power does, none. No key
// is among them twice. Get and Scan see them when it returns. The values belong to the
// manifest then.
//
// Errors: that of Options.Room, or of the disk, and nothing has happened; errs.Failed
// if it is unknown what is on the disk, and the manifest has to be opened again.
func (m *Manifest) Commit(ops ...Op) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if !m.admits(ops) {
		return errTooMuch
	}
	if err := m.append(ops); err != nil {
		return fmt.Errorf("write manifest: %w", err)
	}
	m.data.Lock()
	for _, op := range ops {
		m.state.set(op)
	}
	m.state.seq++
	m.data.Unlock()
	if !m.due() {
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

// admits reports whether a commit fits into the manifest.
func (m *Manifest) admits(ops []Op) bool {
	entries, plain := 0, int64(0)
	for _, op := range ops {
		old, had := m.state.entries[op.Key]
		if had {
			plain -= int64(len(op.Key) + len(old))
			entries--
		}
		if !op.Delete {
			plain += int64(len(op.Key) + len(op.Value))
			entries++
		}
	}
	return m.state.fits(entries, plain)
}

// Get returns a copy of the value that the last Commit gave the key.
func (m *Manifest) Get(key string) ([]byte, bool) {
	m.data.RLock()
	defer m.data.RUnlock()
	v, ok := m.state.entries[key]
	return bytes.Clone(v), ok
}

// Scan calls fn for every key that begins with prefix, in the order of the keys,
// until fn returns an error, which Scan returns. It is what there was when Scan was
// called. fn must not change the value.
func (m *Manifest) Scan(prefix string, fn func(key string, value []byte) error) error {
	found := map[string][]byte{}
	m.data.RLock()
	for k, v := range m.state.entries {
		if strings.HasPrefix(k, prefix) {
			found[k] = v
		}
	}
	m.data.RUnlock()
	for _, k := range slices.Sorted(maps.Keys(found)) {
		if err := fn(k, found[k]); err != nil {
			return err
		}
	}
	return nil
}

// Verify reads both copies and calls bad for each that is not as it was written. It
// returns how many bytes they have.
func (m *Manifest) Verify(bad func(file, reason string)) (size int64, err error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	for i, name := range names {
		c, err := m.read(i)
		if err != nil {
			return 0, err
		}
		size += c.size
		damage := c.damaged(m.state.seq)
		if damage == nil && !m.o.ReadOnly && c.seq != m.state.seq {
			damage = c.behind(m.state.seq)
		}
		if damage != nil {
			bad(name, damage.Error())
		}
	}
	return size, nil
}

// Close releases the files. All that was committed is durable.
func (m *Manifest) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	var err error
	for _, f := range m.inUse() {
		err = errors.Join(err, f.Close())
		f.File = nil
	}
	return err
}
