package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A state is what is in force.
type state struct {
	entries map[string][]byte
	bytes   int64  // of keys and values
	seq     uint64 // of the last commit
}

// set puts an entry in force.
func (s *state) set(op Op) {
	if old, had := s.entries[op.Key]; had {
		s.bytes -= int64(len(op.Key) + len(old))
		delete(s.entries, op.Key)
	}
	if !op.Delete {
		s.bytes += int64(len(op.Key) + len(op.Value))
		s.entries[op.Key] = op.Value
	}
}

// fits reports whether there is room for more entries with so many bytes.
func (s *state) fits(entries int, bytes int64) bool {
	return len(s.entries)+entries <= maxEntries && s.bytes+bytes <= maxBytes
}

// ops are what is in force, in the order of the keys.
func (s *state) ops() iter.Seq[Op] {
	return func(yield func(Op) bool) {
		for _, key := range slices.Sorted(maps.Keys(s.entries)) {
			if !yield(Op{Key: key, Value: s.entries[key]}) {
				return
			}
		}
	}
}

// A place is where a record lies in a copy.
type place struct {
	copy   int
	off, n int64
	seq    uint64
}

// A reading is what was found in one copy. Its records are whole, and follow each other up
// to the first gap; behind that come those that were found further on.
type reading struct {
	missing bool
	size    int64
	records []place
	base    int64  // bytes of the first record, 0 if it is not at the beginning
	end     int64  // of the records before the first gap
	seq     uint64 // of the last of them
	least   uint64 // there was a commit of this number at least
	damage  error  // why the copy is not as it was written
}

// read reads a copy. The errors are errs.Format, and those of a disk that says nothing
// about what is in the file.
func (m *Manifest) read(i int) (*reading, error) {
	c := &reading{}
	name := names[i]
	f, err := vfs.Open(m.fs, m.path(name))
	if err == nil {
		defer f.Close()
		c.size, err = f.Size()
	}
	if err == nil && c.size > maxFile {
		c.damage = fmt.Errorf("%d bytes are more than a manifest has", c.size)
		return c, nil
	}
	if err == nil {
		err = c.scan(f, i)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing, c.damage = true, errors.New("the file is missing")
	case errors.Is(err, errs.Format) || err != nil && !vfs.IsDamage(err):
		return nil, fmt.Errorf("read %s: %w", name, err)
	case err != nil:
		c.damage = err
	}
	return c, nil
}

// scan finds the records of a copy.
func (c *reading) scan(r io.ReaderAt, copy int) error {
	// What a gap takes to be searched is bounded, whatever is in the file.
	f := &search{r: r, size: c.size, left: 8 * c.size}
	gap := false
	for off := int64(0); off < c.size; {
		h, err := f.record(off)
		last := c.seq
		if n := len(c.records); n > 0 {
			last = c.records[n-1].seq
		}
		if err == nil && (len(c.records) > 0 || gap) && (h.seq <= last || !gap && h.seq != last+1) {
			err = errNoRecord
		}
		if err == nil {
			c.records = append(c.records, place{copy, off, headerSize + h.length, h.seq})
			if gap && c.damage == nil {
				c.damage = fmt.Errorf("at byte %d: %w", c.end, errNoRecord)
			}
			off += headerSize + h.length
			if !gap {
				c.seq, c.end = h.seq, off
				c.base = cmp.Or(c.base, off)
			}
			continue
		}
		if errors.Is(err, errs.Format) && !gap {
			return err
		}
		if !errors.Is(err, errNoRecord) && !errors.Is(err, errs.Format) && !vfs.IsDamage(err) {
			return err
		}
		unreadable := !errors.Is(err, errNoRecord) && !errors.Is(err, errs.Format)
		if (c.base == 0 || unreadable) && c.damage == nil {
			c.damage = fmt.Errorf("at byte %d: %w", off, err)
		}
		if unreadable { // a kill leaves no such end
			c.least = last + 1
		}
		gap = true
		off = f.next(off)
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
func (m *Manifest) append(ops []Op) error {
	inUse := m.inUse()
	n, err := m.write(inUse, m.state.seq+1, len(ops), slices.Values(ops))
	if err != nil {
		for _, f := range inUse {
			if cerr := f.cut(); cerr != nil {
				return errs.New(errs.Failed, "%w", errors.Join(err, cerr))
			}
		}
		return err
	}
	for _, f := range inUse {
		if err := f.Sync(); err != nil {
			return errs.New(errs.Failed, "%w", err)
		}
	}
	for _, f := range inUse {
		f.end += n
	}
	return nil
}

// write writes a record to the ends of files and returns its size. The header is written last.
func (m *Manifest) write(files []*file, seq uint64, count int, ops iter.Seq[Op]) (size int64, err error) {
	w := &bodyWriter{m: m, files: files, sum: crc32.New(crcTable)}
	if err := encode(w, m.encoder, count, ops); err != nil {
		return 0, cmp.Or(w.err, err)
	}
	for _, f := range files {
		if _, err := f.WriteAt(header(head{seq, w.n, w.sum.Sum32()}), f.end); err != nil {
			return 0, err
		}
	}
	return headerSize + w.n, nil
}

// A bodyWriter writes the body of a record, block by block, behind the ends of files.
type bodyWriter struct {
	m     *Manifest
	files []*file
	n     int64
	sum   hash.Hash32
	err   error
}

func (w *bodyWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		w.err = w.block(p)
	}
	if w.err != nil {
		return 0, w.err
	}
	w.n += int64(len(p))
	return w.sum.Write(p)
}

func (w *bodyWriter) block(p []byte) error {
	n := headerSize + int64(len(p))
	if w.n+int64(len(p)) > maxBody {
		return errTooMuch
	}
	if err := w.m.o.Room(n * int64(len(w.files))); err != nil {
		return err
	}
	for _, f := range w.files {
		if f.end+w.n+n > maxFile {
			return errTooMuch
		}
		if _, err := f.WriteAt(p, f.end+headerSize+w.n); err != nil {
			return err
		}
	}
	return nil
}

// due reports whether a log has doubled, or is missing.
func (m *Manifest) due() bool {
	return slices.ContainsFunc(m.copies[:], func(f file) bool {
		return f.File == nil || f.end-f.base > max(f.base, slack)
	})
}

// setAside keeps a copy that has commits which a salvage leaves out.
func (m *Manifest) setAside(name string) error {
	dir := m.path("quarantine")
	if err := m.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	err := m.fs.Rename(m.path(name), filepath.Join(dir, fmt.Sprintf("%s-%d", name, m.state.seq)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, m.fs.SyncDir(dir))
}

// rewriteCopy replaces a copy by one record of what is in force. Until the new file has
// the name, the old one stays in use.
func (m *Manifest) rewriteCopy(i int) error {
	path := m.path(names[i])
	tmp := path + ".tmp"
	created, err := vfs.Create(m.fs, tmp)
	if err != nil {
		return err
	}
	f := file{File: created}
	f.end, err = m.write([]*file{&f}, m.state.seq, len(m.state.entries), m.state.ops())
	f.base = f.end
	if err == nil {
		err = f.Sync()
	}
	if err == nil && m.aside {
		err = m.setAside(names[i])
	}
	if err == nil {
		err = m.fs.Rename(tmp, path)
	}
	if err != nil {
		_ = f.Close()
		_ = m.fs.Remove(tmp) // else it is written over
		return err
	}
	if old := m.copies[i]; old.File != nil {
		_ = old.Close() // it has no name any more
	}
	m.copies[i] = f
	if err := m.fs.SyncDir(m.dir); err != nil {
		return errs.New(errs.Failed, "%w", err)
	}
	return nil
}
