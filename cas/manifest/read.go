package manifest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// A Damage describes bytes that are not what was written.
type Damage struct {
	File   string // its base name
	Offset int64  // bytes
	Length int64
	Reason string
}

// A reading is what was found in one copy.
type reading struct {
	file    string // its base name
	missing bool
	size    int64
	records []record // those that are whole, in their order
	end     int64    // offset behind the last of them
	damage  []Damage
	atEnd   bool  // the damage goes on up to the end: records may be missing there
	err     error // the disk does not give the file
}

// last is the sequence number of the last commit.
func (c *reading) last() uint64 {
	if n := len(c.records); n > 0 {
		return c.records[n-1].seq
	}
	return 0
}

// read reads a copy. The errors are errs.Format, and those of a disk that says nothing
// about what is in the file.
func read(fsys vfs.FS, path, name string) (*reading, error) {
	c := &reading{file: name}
	b, err := vfs.ReadFile(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.missing = true
		c.damage = []Damage{{File: name, Reason: "the file is missing"}}
		return c, nil
	case vfs.IsDamage(err) || errors.Is(err, syscall.EFBIG):
		c.damage, c.atEnd, c.err = []Damage{{File: name, Reason: err.Error()}}, true, err
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	c.size = int64(len(b))
	return c, c.scan(b)
}

func (c *reading) scan(b []byte) error {
	for off := int64(0); off < c.size; {
		r, err := decodeRecord(b, off)
		if errors.Is(err, errs.Format) {
			return err
		}
		if err == nil {
			c.records = append(c.records, r)
			off += r.size()
			c.end = off
			continue
		}
		next := nextRecord(b, off)
		if next == c.size && torn(b, off, err) {
			break
		}
		c.damage = append(c.damage, Damage{File: c.file, Offset: off, Length: next - off, Reason: err.Error()})
		c.atEnd = next == c.size
		off = next
	}
	c.checkBase()
	return nil
}

// checkBase looks whether the log begins with the whole of its base.
func (c *reading) checkBase() {
	for i, r := range c.records {
		if r.kind != kindBase || i > 0 && r.left+1 != c.records[i-1].left {
			break
		}
		if r.left == 0 {
			return
		}
	}
	if len(c.damage) == 0 {
		c.damage = []Damage{{File: c.file, Offset: c.end, Reason: "its beginning is not whole"}}
	}
}

// nextRecord is the offset of the next record behind off, or the end.
func nextRecord(b []byte, off int64) int64 {
	for off += align; off < int64(len(b)); off += align {
		if _, err := decodeRecord(b, off); err == nil {
			return off
		}
	}
	return int64(len(b))
}

// torn reports whether the end of a log, in which there is no record for the reason
// given, is what a kill or a power cut leaves of one: it ends too early, or a sector
// of it never reached the disk. Otherwise all of it was written once.
func torn(b []byte, off int64, reason error) bool {
	if errors.Is(reason, errShort) || int64(len(b))-off < headerSize || len(b)%align != 0 {
		return true
	}
	// Padding is less than any part of a sector that a record begins in.
	const sector = 512
	for at := off; at < int64(len(b)); {
		n := min(sector-at%sector, int64(len(b))-at)
		if len(bytes.TrimLeft(b[at:at+n], "\x00")) == 0 {
			return true
		}
		at += n
	}
	return false
}

// A state is what the copies say together.
type state struct {
	entries map[string][]byte
	bytes   int64  // of keys and values
	seq     uint64 // of the last commit
	lost    []string
}

func (s *state) lose(format string, args ...any) {
	s.lost = append(s.lost, fmt.Sprintf(format, args...))
}

// combine replays the records of all copies. A record that only one of them has
// counts.
func (z codec) combine(copies []*reading) *state {
	s := &state{entries: map[string][]byte{}}
	bases, commits := map[uint64]*base{}, map[uint64]*record{}
	for _, c := range copies {
		for i := range c.records {
			if r := &c.records[i]; r.kind == kindCommit {
				commits[r.seq] = r
			} else {
				addBase(bases, r)
			}
		}
	}
	s.begin(z, bases)
	for _, seq := range slices.Sorted(maps.Keys(commits)) {
		if seq <= s.seq {
			continue
		}
		if seq != s.seq+1 {
			s.lose("the commits %d to %d are damaged", s.seq+1, seq-1)
		}
		s.apply(z, commits[seq])
		s.seq = seq
	}
	whole := func(c *reading) bool { ok, _ := c.current(s.seq); return ok }
	cut := func(c *reading) bool { return c.atEnd && c.last() == s.seq }
	if !slices.ContainsFunc(copies, whole) && slices.ContainsFunc(copies, cut) {
		s.lose("what was committed after %d may be damaged", s.seq)
	}
	return s
}

// A base is the beginning of a log, by how many records follow each.
type base struct {
	seq   uint64
	parts map[uint32]*record
	count uint32 // 0 if its first record is damaged
}

func addBase(bases map[uint64]*base, r *record) {
	b := bases[r.gen]
	if b == nil {
		b = &base{seq: r.seq, parts: map[uint32]*record{}}
		bases[r.gen] = b
	}
	b.parts[r.left] = r
	if r.off == 0 {
		b.count = r.left + 1
	}
}

func (b *base) whole() bool { return b.count > 0 && len(b.parts) == int(b.count) }

// begin starts with the newest base that is whole, or else with what is left of any.
func (s *state) begin(z codec, bases map[uint64]*base) {
	list := slices.SortedFunc(maps.Values(bases), func(a, b *base) int { return cmp.Compare(a.seq, b.seq) })
	for i, b := range slices.Backward(list) {
		if b.whole() {
			list = list[i : i+1]
			break
		}
	}
	if len(list) == 0 {
		s.lose("no beginning is left")
	} else if !list[len(list)-1].whole() {
		s.lose("of what was in force at commit %d some is damaged", list[len(list)-1].seq)
	}
	for _, b := range list {
		for _, left := range slices.Backward(slices.Sorted(maps.Keys(b.parts))) {
			s.apply(z, b.parts[left])
		}
		s.seq = b.seq
	}
}

func (s *state) apply(z codec, r *record) {
	err := z.unpack(r, func(op Op) error { return s.set(op) })
	if err != nil {
		s.lose("the record at %d cannot be used: %v", r.off, err)
	}
}

// set puts an entry in force. The value is copied.
func (s *state) set(op Op) error {
	old, had := s.entries[op.Key]
	if had {
		s.bytes -= int64(len(op.Key) + len(old))
	}
	if op.Delete {
		delete(s.entries, op.Key)
		return nil
	}
	size := int64(len(op.Key) + len(op.Value))
	if s.bytes+size > maxBytes || !had && len(s.entries) >= maxEntries {
		return errTooMuch
	}
	s.bytes += size
	s.entries[op.Key] = bytes.Clone(op.Value)
	return nil
}

// current reports whether a copy has everything, and the reason if it is damage that
// it has not: an end that was cut off by a kill is none.
func (c *reading) current(seq uint64) (ok bool, damage []Damage) {
	switch {
	case len(c.damage) > 0:
		return false, c.damage
	case c.last()+1 < seq:
		return false, c.behind(seq)
	}
	return c.last() == seq, nil
}

func (c *reading) behind(seq uint64) []Damage {
	return []Damage{{File: c.file, Offset: c.end, Reason: fmt.Sprintf("it ends at commit %d of %d", c.last(), seq)}}
}
