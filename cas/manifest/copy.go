package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A recordPlace is the place of a record in a copy.
type recordPlace struct {
	copy   int   // index in copyNames
	off, n int64 // offset and length, header included
	seq    uint64
}

// A copyScan is the result of reading one copy. records contains the intact records. Before the first
// gap (a range of bytes without an intact record) their sequence numbers are consecutive.
type copyScan struct {
	missing       bool
	size          int64
	records       []recordPlace
	baseLen       int64  // bytes of the first record, 0 if the copy does not begin with an intact record
	end           int64  // offset of the first gap, or the end of the last record
	seq           uint64 // sequence number of the last record before end
	unreadableSeq uint64 // sequence number of an acknowledged commit whose record cannot be read, 0 if none is known
	damage        error  // why the copy is damaged, nil if it is intact
}

// scanCopy reads a copy. It reports damage in copyScan.damage. Errors: errs.Format, and errors of the
// system that do not mean damage, such as EMFILE.
func (m *Manifest) scanCopy(i int) (*copyScan, error) {
	c := &copyScan{}
	name := copyNames[i]
	err := c.scanFile(m, i)
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

func (c *copyScan) scanFile(m *Manifest, i int) error {
	f, err := vfs.Open(m.fs, m.path(copyNames[i]))
	if err != nil {
		return err
	}
	defer f.Close()

	if c.size, err = f.Size(); err != nil {
		return err
	}

	if c.size > maxFileSize {
		c.damage = fmt.Errorf("%d bytes are more than a manifest has", c.size)
		return nil
	}

	return c.findRecords(f, i)
}

// findRecords finds the intact records of a copy, and sets damage. A gap at the end of the copy whose
// bytes the disk can read is not damage: it may be a torn write.
func (c *copyScan) findRecords(r io.ReaderAt, copy int) error {
	// bodyBudget limits the time: a forged file may have headers of long bodies at many offsets of a gap.
	f := &recordSearch{r: r, size: c.size, bodyBudget: 8 * c.size}
	gap := false

	for off := int64(0); off < c.size; {
		h, err := f.readRecord(off)
		last := c.seq
		if n := len(c.records); n > 0 {
			last = c.records[n-1].seq
		}
		if err == nil && (len(c.records) > 0 || gap) && (h.seq <= last || !gap && h.seq != last+1) {
			err = errNoRecord // the sequence number is impossible here
		}

		if err == nil {
			c.records = append(c.records, recordPlace{copy, off, headerSize + h.length, h.seq})
			if gap && c.damage == nil {
				c.damage = fmt.Errorf("at byte %d: %w", c.end, errNoRecord)
			}

			off += headerSize + h.length
			if !gap {
				c.seq, c.end = h.seq, off
				c.baseLen = cmp.Or(c.baseLen, off)
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
		if (c.baseLen == 0 || unreadable) && c.damage == nil {
			c.damage = fmt.Errorf("at byte %d: %w", off, err)
		}
		if unreadable { // a torn write can be read, so these bytes belong to an acknowledged commit
			c.unreadableSeq = last + 1
		}

		gap = true
		off = f.nextMagic(off)
	}

	if c.size == 0 {
		c.damage = errors.New("the file is empty")
	}

	return nil
}

// damageAt returns why a copy is damaged, or nil. seq is the sequence number of the last commit. A copy
// that lacks only this commit is not damaged: a kill during Commit can leave such a copy.
func (c *copyScan) damageAt(seq uint64) error {
	switch {
	case c.missing && seq == 0: // a kill came before the second copy was created
		return nil
	case c.damage == nil && c.seq+1 < seq:
		return c.behindError(seq)
	}
	return c.damage
}

func (c *copyScan) behindError(seq uint64) error {
	return fmt.Errorf("it ends at commit %d of %d", c.seq, seq)
}

// A copyFile is a copy that is open for writing. If the disk was too full to rewrite a copy, its
// File is nil until a later rewrite succeeds.
type copyFile struct {
	vfs.File
	end     int64 // offset after the last record
	baseLen int64 // bytes of the first record
}

// openCopy opens a copy for writing, and cuts off bytes after its last record.
func (m *Manifest) openCopy(i int, c *copyScan) error {
	opened, err := vfs.OpenWrite(m.fs, m.path(copyNames[i]))
	if err != nil {
		return err
	}

	f := &m.copies[i]
	*f = copyFile{File: opened, end: c.end, baseLen: c.baseLen}
	if c.end < c.size {
		return f.truncate()
	}

	return nil
}

// truncate cuts off the bytes after the last record, and syncs the file.
func (f *copyFile) truncate() error {
	if err := f.Truncate(f.end); err != nil {
		return err
	}
	return f.Sync()
}

// openCopies returns the copies that are open for writing.
func (m *Manifest) openCopies() (list []*copyFile) {
	for i := range m.copies {
		if m.copies[i].File != nil {
			list = append(list, &m.copies[i])
		}
	}
	return list
}

// appendRecord writes a record to both copies, then syncs both. After a failed write it cuts off the
// written bytes. It returns errs.Failed if the cut or a sync fails.
func (m *Manifest) appendRecord(ops []Op) error {
	copies := m.openCopies()
	n, err := m.writeRecord(copies, m.state.seq+1, func(w io.Writer) error { return encode(w, m.encoder, len(ops), slices.Values(ops)) })
	if err != nil {
		for _, f := range copies {
			if cerr := f.truncate(); cerr != nil {
				return errs.New(errs.Failed, "%w", errors.Join(err, cerr))
			}
		}
		return err
	}

	for _, f := range copies {
		if err := f.Sync(); err != nil {
			return errs.New(errs.Failed, "%w", err)
		}
	}

	for _, f := range copies {
		f.end += n
	}

	return nil
}

// writeRecord appends a record to each file, and returns the size of the record. It calls body to write the
// record's body. It writes the header last, and does not change copyFile.end.
func (m *Manifest) writeRecord(files []*copyFile, seq uint64, body func(io.Writer) error) (size int64, err error) {
	w := &bodyWriter{m: m, files: files, sum: crc32.New(crcTable)}
	if err := body(w); err != nil {
		return 0, cmp.Or(w.err, err)
	}

	for _, f := range files {
		if _, err := f.WriteAt(encodeHeader(recordHeader{seq, w.n, w.sum.Sum32()}), f.end); err != nil {
			return 0, err
		}
	}

	return headerSize + w.n, nil
}

// A bodyWriter writes the body of a record to all files, after the space for its header.
type bodyWriter struct {
	m     *Manifest
	files []*copyFile
	n     int64 // bytes written so far
	sum   hash.Hash32
	err   error // the first error
}

func (w *bodyWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		w.err = w.writeBlock(p)
	}
	if w.err != nil {
		return 0, w.err
	}

	w.n += int64(len(p))
	return w.sum.Write(p)
}

// writeBlock writes a part of the body to all files, if the limits and the disk allow it.
func (w *bodyWriter) writeBlock(p []byte) error {
	n := headerSize + int64(len(p))
	if w.n+int64(len(p)) > maxBodySize {
		return errTooMuch
	}
	if err := w.m.o.CheckRoom(n * int64(len(w.files))); err != nil {
		return err
	}

	for _, f := range w.files {
		if f.end+w.n+n > maxFileSize {
			return errTooMuch
		}
		if _, err := f.WriteAt(p, f.end+headerSize+w.n); err != nil {
			return err
		}
	}

	return nil
}

// rebase makes a new base of all entries of the state, so that state.changed is empty.
func (m *Manifest) rebase() error {
	if m.state.base != nil && len(m.state.changed) == 0 {
		return nil
	}

	b, err := newBase(m.encoder, &m.state)
	if err != nil {
		return err
	}

	m.dataMu.Lock()
	defer m.dataMu.Unlock()
	m.state.base, m.state.changed = b, make(map[string][]byte)

	return nil
}

// mustRewrite reports whether the copies must be rewritten, for one of these reasons:
//   - a copy has doubled in size after its last rewrite,
//   - a copy is not open,
//   - the entries were written by a version that did not compress them in blocks.
func (m *Manifest) mustRewrite() bool {
	return m.state.base == nil && m.state.bytes > minRewriteBytes || slices.ContainsFunc(m.copies[:], func(f copyFile) bool {
		return f.File == nil || f.end-f.baseLen > max(f.baseLen, minRewriteBytes)
	})
}

// moveToQuarantine moves a copy with commits that Open ignored to the folder quarantine.
func (m *Manifest) moveToQuarantine(name string) error {
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

// rewriteCopy replaces a copy by a file with one record, which contains all entries. If it fails before
// it has renamed the new file, the old file stays in use.
func (m *Manifest) rewriteCopy(i int) error {
	if err := m.rebase(); err != nil {
		return err
	}

	tmp := m.path(copyNames[i]) + ".tmp"
	created, err := vfs.Create(m.fs, tmp)
	if err != nil {
		return err
	}

	f := copyFile{File: created}
	if err := m.replaceFile(i, &f, tmp); err != nil {
		_ = f.Close()
		_ = m.fs.Remove(tmp) // a file that remains is overwritten next time
		return err
	}

	if old := m.copies[i]; old.File != nil {
		_ = old.Close() // the replaced file
	}

	m.copies[i] = f
	if err := m.fs.SyncDir(m.dir); err != nil {
		return errs.New(errs.Failed, "%w", err)
	}

	return nil
}

// replaceFile writes all entries to a new file, and gives the file the name of a copy.
func (m *Manifest) replaceFile(i int, f *copyFile, tmp string) (err error) {
	f.end, err = m.writeRecord([]*copyFile{f}, m.state.seq, m.state.base.write)
	if err != nil {
		return err
	}

	f.baseLen = f.end
	if err := f.Sync(); err != nil {
		return err
	}

	if m.quarantineOld {
		if err := m.moveToQuarantine(copyNames[i]); err != nil {
			return err
		}
	}

	return m.fs.Rename(tmp, m.path(copyNames[i]))
}
