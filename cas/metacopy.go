package cas

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/amberfs/amberfs/cas/vfs"
)

const (
	metaCopyName  = "metadata.copy"
	metaCopyID    = 1          // less than that of any pack
	metaCopyShare = 4          // a part of the copy: so many bytes committed since make a new one worth it
	metaCopySmall = 1 << 20    // bytes of a copy that is made whenever the store is closed
	keyCopy       = "\x00copy" // metadata of a store that has a copy
)

var errMetaCopy = errors.New("the copy of the metadata is not whole")

// A metaCopy is what the copy of the metadata says.
type metaCopy struct {
	seq     uint64 // of the last commit in it; 0 if it is damaged
	entries map[string]metaEntry
	durable metaBatch
	lost    error // why it is not whole

	unseen map[string]struct{} // keys that the packs do not have
	gone   map[string]struct{} // keys that the packs have, and that were deleted
}

// copyDue tells whether enough has changed for a new copy; when the store is closed,
// anything is, unless the copy is so large that somebody would wait for it. commitMu is
// held.
func (s *Store) copyDue(closing bool) bool {
	n := s.meta.uncopied
	return n > 0 && (n >= s.meta.copied/metaCopyShare || closing && s.meta.copied < metaCopySmall)
}

// copyMeta writes all metadata into a file of its own, in the form of a metadata
// pack, in place of the one before. It is for when packs and index lose it. Failing
// is only a warning. commitMu is held.
func (s *Store) copyMeta() {
	if s.o.noCopy {
		return
	}
	s.meta.uncopied = 0 // also if it fails: not with each commit from now on
	if !s.allMetaSound() {
		// A repair may mend what the copy would say is not there.
		s.log.Warn("the metadata is not copied, for some is damaged")
		return
	}
	err := s.writeMetaCopy()
	if err == nil {
		err = s.appendCopyMark() // from now on it should be there
	}
	if err != nil {
		s.log.Warn("the metadata is not copied", "err", err)
	}
	s.meta.uncopied = 0
}

func (s *Store) appendCopyMark() error {
	if _, ok, err := s.metaNow(keyCopy); ok || err != nil {
		return err
	}
	m := s.durable()
	seq := s.meta.seq + 1
	m.entries = []metaItem{{keyCopy, metaEntry{seq: seq}}}
	return s.appendMeta(kindMeta, seq, m)
}

func (s *Store) writeMetaCopy() error {
	live := int64(0)
	if err := s.scanMeta("", func(key string, e metaEntry) error {
		live += int64(len(key) + len(e.value))
		return nil
	}); err != nil {
		return err
	}
	if err := s.space.forObjects(2 * live); err != nil {
		return err
	}
	name := s.metaCopyPath()
	tmp := name + ".tmp"
	f, err := vfs.Create(s.fs, tmp)
	if err != nil {
		return noSpace(err)
	}
	end, err := s.fillMetaCopy(f)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = s.fs.Rename(tmp, name)
	}
	if err != nil {
		_ = s.fs.Remove(tmp) // else it is written over
		return noSpace(err)
	}
	s.meta.copied = end
	return s.fs.SyncDir(s.packDir)
}

// fillMetaCopy writes the records and returns where they end.
func (s *Store) fillMetaCopy(f vfs.File) (int64, error) {
	if _, err := f.WriteAt(encodePackHeader(metaCopyID, roleMeta), 0); err != nil {
		return 0, err
	}
	end := int64(packHeaderSize)
	m, size := s.durable(), 0
	write := func(kind Kind) error {
		body := m.encode()
		h, bp := s.codec.build(kind, Sum(body), body, s.meta.seq, small)
		defer s.codec.release(bp)
		h.encode(*bp, metaCopyID, end)
		if _, err := f.WriteAt(*bp, end); err != nil {
			return err
		}
		end += int64(len(*bp))
		m, size = s.durable(), 0
		return nil
	}
	err := s.scanMeta("", func(key string, e metaEntry) error {
		m.entries = append(m.entries, metaItem{key, e})
		if size += len(key) + len(e.value); size < metaBatchSize {
			return nil
		}
		return write(kindMeta)
	})
	if err == nil && len(m.entries) > 0 {
		err = write(kindMeta)
	}
	if err == nil {
		err = write(kindBase)
	}
	return end, err
}

func (s *Store) metaCopyPath() string { return filepath.Join(s.packDir, metaCopyName) }

// openMetaCopy looks for the copy of a store that was just opened, and makes one if
// it should be there.
func (s *Store) openMetaCopy() error {
	i, err := s.fs.Stat(s.metaCopyPath())
	if err == nil {
		s.meta.copied = i.Size
		return nil
	}
	_, marked, err := s.metaNow(keyCopy)
	if err == nil && marked {
		s.mend(metaCopyName, errors.New("the file is missing"))
		s.commitMu.Lock()
		defer s.commitMu.Unlock()
		s.copyMeta()
	}
	return err
}

// readMetaCopy reads the copy, as much of it as is good, and hands what is not to
// bad, which may be nil. The error is fs.ErrNotExist if there is none.
func (s *Store) readMetaCopy(bad func(*item)) (*metaCopy, error) {
	f, err := vfs.Open(s.fs, s.metaCopyPath())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	c := &metaCopy{entries: map[string]metaEntry{}, unseen: map[string]struct{}{}, gone: map[string]struct{}{}}
	head := make([]byte, packHeaderSize)
	n, err := readFull(f, head, 0)
	if err == nil {
		err = checkPackHeader(head[:n], metaCopyID, roleMeta)
	}
	if errors.Is(err, ErrFormat) {
		return nil, err
	}
	if err != nil {
		c.lost = err
		if bad != nil {
			bad(&item{length: packHeaderSize, bad: err.Error(), lost: true})
		}
	}
	whole := false
	sc := &scan{r: f, id: metaCopyID, from: packHeaderSize, to: size, bodies: true}
	err = sc.run(context.Background(), func(it *item) error {
		var b *metaBatch
		if it.bad == "" {
			var err error
			if b, err = s.decodeMeta(it); err != nil {
				it.bad = err.Error()
			}
		}
		if it.bad != "" {
			c.lost = errMetaCopy
			if bad != nil {
				bad(it)
			}
			return nil
		}
		for _, e := range b.entries {
			c.entries[e.key] = e.metaEntry
			c.unseen[e.key] = struct{}{}
		}
		c.durable = metaBatch{durablePack: b.durablePack, durableOff: b.durableOff}
		c.seq = it.seq
		whole = it.kind == kindBase && it.off+it.length == size
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !whole && c.lost == nil {
		c.lost = errMetaCopy
		if bad != nil {
			bad(&item{off: size, bad: errMetaCopy.Error(), lost: true})
		}
	}
	if c.lost != nil {
		c.seq = 0
	}
	return c, nil
}

// adoptMetaCopy gives an index that is empty what the copy has. The packs follow.
func (s *Store) adoptMetaCopy() (*metaCopy, error) {
	c, err := s.readMetaCopy(nil)
	if errors.Is(err, ErrFormat) {
		return nil, err
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.log.Error("the copy of the metadata cannot be read", "err", err)
		}
		return &metaCopy{}, nil
	}
	if c.lost != nil {
		s.log.Error("the copy of the metadata is damaged; verify tells more", "reason", c.lost)
	}
	s.meta.seq = max(s.meta.seq, c.seq)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, e := range c.entries {
		s.fresh.metas[key] = e
		s.fresh.bytes += int64(len(key) + len(e.value))
	}
	return c, nil
}

// knows tells whether the copy has the last word on an entry of the packs: it has
// been made later.
func (c *metaCopy) knows(e metaItem) bool {
	now, ok := c.entries[e.key]
	if ok && now.seq <= e.seq {
		delete(c.unseen, e.key)
	}
	later := c.seq > 0 && e.seq <= c.seq
	if later && !ok && !e.deleted {
		c.gone[e.key] = struct{}{}
	} else {
		delete(c.gone, e.key)
	}
	return later
}

// differs counts the keys of which the packs do not say what the copy does.
func (c *metaCopy) differs() int { return len(c.unseen) + len(c.gone) }
