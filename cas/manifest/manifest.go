package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// names are the two copies.
var names = [2]string{"manifest", "manifest.copy"}

const (
	quarantine = "quarantine"
	basePart   = 64 << 10  // bytes of entries in a record of a base
	slack      = 128 << 10 // bytes of commits that are not worth writing anew

	// keyLost is the entry that tells what was lost. Keys of callers do not begin so.
	keyLost = "\x00lost"
)

// Options are the ways to open a manifest.
type Options struct {
	Logger   *slog.Logger // not nil
	New      bool         // the store is empty: it is no loss that there is no manifest
	ReadOnly bool         // change nothing on disk
	Salvage  bool         // go on without a copy that the disk does not give, and that the other does not replace
	// Room returns an error if n bytes must not be written, for the disk is full.
	// nil is without limit.
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
	codec   codec
	mended  []Damage // guarded by writing

	data  sync.RWMutex
	state *state // guarded by data, changed with writing held too
}

// Open opens the manifest of the store in dir and makes one if there is none. A copy
// that is missing, damaged or behind is made anew from the other.
func Open(fsys vfs.FS, dir string, o Options) (*Manifest, error) {
	m := &Manifest{fs: fsys, dir: dir, o: o}
	var err error
	if m.codec, err = newCodec(); err != nil {
		return nil, err
	}
	if err := m.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open manifest: %w", err), m.Close())
	}
	return m, nil
}

func (m *Manifest) path(name string) string { return filepath.Join(m.dir, name) }

func (m *Manifest) open() error {
	var found []*reading
	for _, name := range names {
		c, err := read(m.fs, m.path(name), name)
		if err != nil {
			return err
		}
		found = append(found, c)
	}
	if m.o.New && found[0].missing && found[1].missing {
		m.state = &state{entries: map[string][]byte{}}
		if m.o.ReadOnly {
			return nil
		}
		return m.rewrite()
	}
	m.state = m.codec.choose(found)
	if lost := m.state.lost; lost != "" {
		if err := cmp.Or(found[0].err, found[1].err); err != nil && !m.o.Salvage {
			return err
		}
		m.o.Logger.Error("metadata is lost; verify tells more", "what", lost)
		m.state.entries[keyLost] = []byte(lost)
		if m.o.ReadOnly {
			return nil
		}
		if err := m.setAside(found); err != nil {
			return err
		}
		return m.rewrite()
	}
	if m.o.ReadOnly {
		return nil
	}
	return m.resume(found)
}

// setAside copies what is damaged to the quarantine, before it is made anew.
func (m *Manifest) setAside(found []*reading) error {
	if err := m.fs.MkdirAll(m.path(quarantine), 0o700); err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	for _, c := range found {
		b, err := vfs.ReadFile(m.fs, m.path(c.file))
		if err != nil {
			continue // what the disk does not give cannot be kept
		}
		to := filepath.Join(m.path(quarantine), fmt.Sprintf("%s-%d", c.file, m.state.seq))
		if err := vfs.WriteFile(m.fs, to, b); err != nil {
			return fmt.Errorf("quarantine: %w", err)
		}
	}
	return nil
}

// resume goes on with the copies that have everything, and makes the others anew.
func (m *Manifest) resume(found []*reading) error {
	var stale []int
	for i, c := range found {
		ok, damage := c.current(m.state.seq)
		if c.missing && m.state.seq == 0 {
			damage = nil // a kill came between the making of the two
		}
		for _, d := range damage {
			m.o.Logger.Error("a copy of the manifest is damaged and made anew", "file", d.File, "offset", d.Offset, "reason", d.Reason)
		}
		m.mended = append(m.mended, damage...)
		if ok {
			if err := m.copies[i].resume(m.fs, m.path(c.file), c); err != nil {
				return err
			}
		} else {
			stale = append(stale, i)
		}
	}
	for _, i := range stale {
		err := m.rewriteCopy(i)
		if errors.Is(err, errs.Failed) || err != nil && len(m.inUse()) == 0 {
			return err
		}
		if err != nil { // the disk may be full
			m.o.Logger.Warn("for the time being there is one copy of the manifest", "err", err)
		}
	}
	return nil
}

// Commit makes ops durable, all of them or, if it fails or the power does, none. No key
// is among them twice. Get and Scan see them when it returns. The values are copied.
//
// Errors: that of Options.Room, or of the disk, and nothing has happened; errs.Failed
// if nobody knows what is on the disk, and the manifest has to be opened anew.
func (m *Manifest) Commit(ops ...Op) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	r := &record{kind: kindCommit, seq: m.state.seq + 1}
	if n := m.codec.pack(r, ops); n > maxBody {
		return errTooMuch
	}
	if err := m.admit(r, ops); err != nil {
		return err
	}
	if err := m.append(r); err != nil {
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
	if err := m.rewrite(); errors.Is(err, errs.Failed) {
		return err
	} else if err != nil {
		m.o.Logger.Warn("the manifest is not written anew", "err", err)
	}
	return nil
}

// admit looks whether there is room for a commit, in the manifest and on the disk.
func (m *Manifest) admit(r *record, ops []Op) error {
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
	if !m.state.fits(entries, plain) {
		return errTooMuch
	}
	return m.room(2 * r.size())
}

func (m *Manifest) room(n int64) error {
	if m.o.Room == nil {
		return nil
	}
	return m.o.Room(n)
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
	type entry struct {
		key   string
		value []byte
	}
	var list []entry
	m.data.RLock()
	for k, v := range m.state.entries {
		if strings.HasPrefix(k, prefix) {
			list = append(list, entry{k, v})
		}
	}
	m.data.RUnlock()
	slices.SortFunc(list, func(a, b entry) int { return strings.Compare(a.key, b.key) })
	for _, e := range list {
		if err := fn(e.key, e.value); err != nil {
			return err
		}
	}
	return nil
}

// Lost returns what was lost, because neither copy has it.
func (m *Manifest) Lost() []Damage {
	m.data.RLock()
	defer m.data.RUnlock()
	what, ok := m.state.entries[keyLost]
	if !ok {
		return nil
	}
	return []Damage{{File: names[0], Reason: string(what)}}
}

// Forgive ends the telling of what was lost: it has been told, and taken note of.
func (m *Manifest) Forgive() error {
	if len(m.Lost()) == 0 {
		return nil
	}
	return m.Commit(Op{Key: keyLost, Delete: true})
}

// Mended tells, once, what Open found damaged and put right.
func (m *Manifest) Mended() []Damage {
	m.writing.Lock()
	defer m.writing.Unlock()
	found := m.mended
	m.mended = nil
	return found
}

// Verify reads both copies and returns what is damaged in them, and how many bytes
// they have.
func (m *Manifest) Verify() (found []Damage, size int64, err error) {
	m.writing.Lock()
	defer m.writing.Unlock()
	found = m.Lost()
	for _, name := range names {
		c, err := read(m.fs, m.path(name), name)
		if err != nil {
			return nil, 0, err
		}
		size += c.size
		ok, damage := c.current(m.state.seq)
		if !ok && !m.o.ReadOnly && len(damage) == 0 {
			damage = c.behind(m.state.seq)
		}
		found = append(found, damage...)
	}
	return found, size, nil
}

// Close lets go of the files. All that was committed is durable.
func (m *Manifest) Close() error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.codec.close()
	var err error
	for _, f := range m.inUse() {
		err = errors.Join(err, f.Close())
		f.File = nil
	}
	return err
}
