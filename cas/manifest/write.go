package manifest

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A file is a copy that is open for writing. It is nil while a full disk keeps it from
// being made anew.
type file struct {
	vfs.File
	gen  uint64
	end  int64
	base int64 // bytes of its base
}

// resume opens a copy, and cuts off what a kill left of its last record.
func (f *file) resume(fsys vfs.FS, path string, c *reading) error {
	opened, err := vfs.OpenWrite(fsys, path)
	if err != nil {
		return err
	}
	*f = file{File: opened, gen: c.records[0].gen, end: c.end, base: c.end}
	if i := slices.IndexFunc(c.records, func(r record) bool { return r.kind == kindCommit }); i >= 0 {
		f.base = c.records[i].off
	}
	if c.end < c.size {
		return f.cut()
	}
	return nil
}

// cut takes away what lies behind the last record.
func (f *file) cut() error {
	if err := f.Truncate(f.end); err != nil {
		return err
	}
	return f.Sync()
}

// append writes a record to both copies, then syncs both. If that fails, they are as
// they were.
func (m *Manifest) append(r *record) error {
	inUse := m.inUse()
	for _, f := range inUse {
		if err := f.write(r); err != nil {
			return errors.Join(err, m.cutBack())
		}
	}
	for _, f := range inUse {
		if err := f.Sync(); err != nil {
			return errs.New(errs.Failed, "%w", err)
		}
	}
	for _, f := range inUse {
		f.end += r.size()
	}
	return nil
}

func (m *Manifest) inUse() (list []*file) {
	for i := range m.copies {
		if m.copies[i].File != nil {
			list = append(list, &m.copies[i])
		}
	}
	return list
}

func (m *Manifest) cutBack() error {
	for _, f := range m.inUse() {
		if err := f.cut(); err != nil {
			return errs.New(errs.Failed, "%w", err)
		}
	}
	return nil
}

func (f *file) write(r *record) error {
	r.gen, r.off = f.gen, f.end
	_, err := f.WriteAt(r.encode(), f.end)
	return err
}

// due reports whether a log has doubled, or is missing.
func (m *Manifest) due() bool {
	return slices.ContainsFunc(m.copies[:], func(f file) bool {
		return f.File == nil || f.end-f.base > max(f.base, slack)
	})
}

// rewrite writes both copies anew.
func (m *Manifest) rewrite() error {
	for i := range m.copies {
		if err := m.rewriteCopy(i); err != nil {
			return err
		}
	}
	return nil
}

// rewriteCopy writes a copy anew with what is in force. Until the new file has the
// name, the old one stays in use.
func (m *Manifest) rewriteCopy(i int) error {
	if err := m.room(m.state.bytes + headerSize); err != nil {
		return err
	}
	path := m.path(names[i])
	tmp := path + ".tmp"
	f, err := vfs.Create(m.fs, tmp)
	if err != nil {
		return err
	}
	next := file{File: f, gen: rand.Uint64()}
	err = m.writeBase(&next)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = m.fs.Rename(tmp, path)
	}
	if err != nil {
		_ = m.fs.Remove(tmp) // else it is written over
		return errors.Join(err, f.Close())
	}
	old := m.copies[i]
	m.copies[i] = next
	if err := m.fs.SyncDir(m.dir); err != nil {
		return errs.New(errs.Failed, "%w", err)
	}
	if old.File != nil {
		_ = old.Close() // it has no name any more
	}
	return nil
}

// writeBase writes what is in force.
func (m *Manifest) writeBase(f *file) error {
	parts := m.parts()
	for i, ops := range parts {
		r := &record{kind: kindBase, seq: m.state.seq, left: uint32(len(parts) - 1 - i)}
		m.codec.pack(r, ops)
		if err := f.write(r); err != nil {
			return err
		}
		f.end += r.size()
	}
	f.base = f.end
	return nil
}

// parts is what is in force, in the order of the keys, by what a record holds.
func (m *Manifest) parts() [][]Op {
	var parts [][]Op
	var ops []Op
	size := 0
	for _, key := range slices.Sorted(maps.Keys(m.state.entries)) {
		v := m.state.entries[key]
		if size += len(key) + len(v); size > basePart && len(ops) > 0 {
			parts, ops, size = append(parts, ops), nil, len(key)+len(v)
		}
		ops = append(ops, Op{Key: key, Value: v})
	}
	return append(parts, ops)
}
