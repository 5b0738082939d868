package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A state is what is in force.
type state struct {
	entries map[string][]byte
	bytes   int64  // of keys and values
	seq     uint64 // of the last commit
}

// set puts an entry in force. The value is copied.
func (s *state) set(op Op) {
	if old, had := s.entries[op.Key]; had {
		s.bytes -= int64(len(op.Key) + len(old))
		delete(s.entries, op.Key)
	}
	if !op.Delete {
		s.bytes += int64(len(op.Key) + len(op.Value))
		s.entries[op.Key] = bytes.Clone(op.Value)
	}
}

// fits reports whether there is room for more entries with so many bytes.
func (s *state) fits(entries int, bytes int64) bool {
	return len(s.entries)+entries <= maxEntries && s.bytes+bytes <= maxBytes
}

// ops are what is in force, in the order of the keys.
func (s *state) ops() []Op {
	ops := make([]Op, 0, len(s.entries))
	for _, key := range slices.Sorted(maps.Keys(s.entries)) {
		ops = append(ops, Op{Key: key, Value: s.entries[key]})
	}
	return ops
}

// A reading is what was found in one copy: what its records say up to the first that is
// damaged.
type reading struct {
	state
	missing   bool
	size      int64
	base, end int64 // bytes of the first record, and of all; base is 0 if there is none
	damage    error // why it is not as it was written
}

// read reads a copy. The errors are errs.Format, and those of a disk that says nothing
// about what is in the file.
func (m *Manifest) read(name string) (*reading, error) {
	c := &reading{state: state{entries: map[string][]byte{}}}
	b, err := vfs.ReadFile(m.fs, m.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing, c.damage = true, errors.New("the file is missing")
		return c, nil
	case vfs.IsDamage(err) || errors.Is(err, syscall.EFBIG):
		c.damage = err
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return c, c.scan(m.codec, b)
}

// scan replays the records that b begins with.
func (c *reading) scan(z codec, b []byte) error {
	c.size = int64(len(b))
	for c.end < c.size {
		rest := b[c.end:]
		seq, body, err := cutRecord(rest)
		if errors.Is(err, errs.Format) {
			return err
		}
		if err == nil && c.base > 0 && seq != c.seq+1 {
			err = errNoRecord
		}
		var ops []Op
		if err == nil {
			ops, err = z.decode(body)
		}
		if err != nil {
			if c.base == 0 || recordBehind(rest) {
				c.damage = fmt.Errorf("at byte %d: %w", c.end, err)
			}
			return nil
		}
		for _, op := range ops {
			c.set(op)
		}
		if !c.fits(0, 0) {
			c.base, c.damage = 0, errTooMuch
			return nil
		}
		c.seq = seq
		c.end += headerSize + int64(len(body))
		if c.base == 0 {
			c.base = c.end
		}
	}
	if c.size == 0 {
		c.damage = errors.New("the file is empty")
	}
	return nil
}

// damaged returns what is wrong with a copy, when the last commit is seq. A kill in a
// commit leaves one copy a record shorter.
func (c *reading) damaged(seq uint64) error {
	switch {
	case c.missing && seq == 0: // a kill came between the making of the two
		return nil
	case c.damage == nil && c.seq+1 < seq:
		return c.behind(seq)
	}
	return c.damage
}

func (c *reading) behind(seq uint64) error {
	return fmt.Errorf("it ends at commit %d of %d", c.seq, seq)
}

// A file is a copy that is open for writing. It has no File while a full disk keeps it
// from being replaced.
type file struct {
	vfs.File
	end  int64
	base int64 // bytes of the first record
}

// resume opens a copy, and cuts off what is behind its last record.
func (m *Manifest) resume(i int, c *reading) error {
	opened, err := vfs.OpenWrite(m.fs, m.path(names[i]))
	if err != nil {
		return err
	}
	f := &m.copies[i]
	*f = file{File: opened, end: c.end, base: c.base}
	if c.end < c.size {
		return f.cut()
	}
	return nil
}

// cut removes what lies behind the last record.
func (f *file) cut() error {
	if err := f.Truncate(f.end); err != nil {
		return err
	}
	return f.Sync()
}

func (m *Manifest) inUse() (list []*file) {
	for i := range m.copies {
		if m.copies[i].File != nil {
			list = append(list, &m.copies[i])
		}
	}
	return list
}

// append writes a record to both copies, then syncs both. If writing fails, they are as
// they were.
func (m *Manifest) append(r []byte) error {
	inUse := m.inUse()
	for _, f := range inUse {
		if _, err := f.WriteAt(r, f.end); err != nil {
			for _, f := range inUse {
				if cerr := f.cut(); cerr != nil {
					return errs.New(errs.Failed, "%w", errors.Join(err, cerr))
				}
			}
			return err
		}
	}
	for _, f := range inUse {
		if err := f.Sync(); err != nil {
			return errs.New(errs.Failed, "%w", err)
		}
	}
	for _, f := range inUse {
		f.end += int64(len(r))
	}
	return nil
}

// due reports whether a log has doubled, or is missing.
func (m *Manifest) due() bool {
	return slices.ContainsFunc(m.copies[:], func(f file) bool {
		return f.File == nil || f.end-f.base > max(f.base, slack)
	})
}

// rewriteCopy replaces a copy by one record of what is in force. Until the new file has
// the name, the old one stays in use.
func (m *Manifest) rewriteCopy(i int) error {
	r, err := m.codec.encode(m.state.seq, m.state.ops())
	if err == nil {
		err = m.o.Room(int64(len(r)))
	}
	if err != nil {
		return err
	}
	path := m.path(names[i])
	tmp := path + ".tmp"
	if err = vfs.WriteSynced(m.fs, tmp, r); err == nil {
		err = m.fs.Rename(tmp, path)
	}
	if err != nil {
		_ = m.fs.Remove(tmp) // else it is written over
		return err
	}
	if old := m.copies[i]; old.File != nil {
		_ = old.Close() // it has no name any more
	}
	m.copies[i] = file{}
	f, err := vfs.OpenWrite(m.fs, path)
	if err = errors.Join(err, m.fs.SyncDir(m.dir)); err != nil {
		return errs.New(errs.Failed, "%w", err)
	}
	m.copies[i] = file{File: f, end: int64(len(r)), base: int64(len(r))}
	return nil
}
