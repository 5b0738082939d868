package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
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

// A reading is what was found in one copy: the records up to the first that is damaged.
type reading struct {
	file    string // its base name
	missing bool
	size    int64
	records []record // in their order
	end     int64    // offset behind the last of them
	damage  []Damage // at end: at most one
	err     error    // the disk does not give the file
}

// last is the sequence number of the last commit.
func (c *reading) last() uint64 {
	if n := len(c.records); n > 0 {
		return c.records[n-1].seq
	}
	return 0
}

// whole reports whether the log begins with the whole of its base.
func (c *reading) whole() bool {
	for _, r := range c.records {
		if r.kind == kindBase && r.left == 0 {
			return true
		}
	}
	return false
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
		c.damage, c.err = []Damage{{File: name, Reason: err.Error()}}, err
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	c.size = int64(len(b))
	return c, c.scan(b)
}

func (c *reading) scan(b []byte) error {
	for c.end < c.size {
		r, err := decodeRecord(b, c.end)
		if errors.Is(err, errs.Format) {
			return err
		}
		if err == nil && !c.follows(r) {
			err = errOrder
		}
		if err != nil {
			next := nextRecord(b, c.end)
			if next < c.size || !torn(b, c.end, err) {
				c.damaged(err)
			}
			break
		}
		c.records = append(c.records, r)
		c.end += r.size()
	}
	if !c.whole() && len(c.damage) == 0 {
		c.damaged(errBeginning)
	}
	return nil
}

var (
	errOrder     = errors.New("the record is not the next one")
	errBeginning = errors.New("its beginning is not whole")
)

func (c *reading) damaged(reason error) {
	c.damage = []Damage{{File: c.file, Offset: c.end, Length: c.size - c.end, Reason: reason.Error()}}
}

// follows reports whether a record is the next one of its log.
func (c *reading) follows(r record) bool {
	if len(c.records) == 0 {
		return r.kind == kindBase
	}
	last := c.records[len(c.records)-1]
	if last.kind == kindBase && last.left > 0 {
		return r.kind == kindBase && r.gen == last.gen && r.left == last.left-1
	}
	return r.kind == kindCommit && r.gen == last.gen && r.seq == last.seq+1
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

// A state is what is in force.
type state struct {
	entries map[string][]byte
	bytes   int64  // of keys and values
	seq     uint64 // of the last commit
	lost    string // what no copy has; empty for nothing
}

// choose replays the copy that has more. A damage in that one is a loss: what was
// committed behind it is in neither.
func (z codec) choose(copies []*reading) *state {
	var best *reading
	var chosen *state
	for _, c := range copies {
		if !c.whole() {
			continue
		}
		s := z.replay(c)
		if chosen == nil || s.seq > chosen.seq || s.seq == chosen.seq && len(best.damage) > len(c.damage) {
			best, chosen = c, s
		}
	}
	if chosen == nil {
		return &state{entries: map[string][]byte{}, lost: "no copy has a beginning that is whole"}
	}
	if len(best.damage) > 0 {
		chosen.lost = fmt.Sprintf("what was committed after %d: %s", chosen.seq, best.damage[0].Reason)
	}
	return chosen
}

// replay puts the records of a copy in force, up to one that cannot be used.
func (z codec) replay(c *reading) *state {
	s := &state{entries: map[string][]byte{}}
	for i, r := range c.records {
		err := z.unpack(&r, s.set)
		if err == nil && !s.fits(0, 0) {
			err = errTooMuch
		}
		if err != nil {
			c.records, c.end = c.records[:i], r.off
			c.damaged(err)
			break
		}
		s.seq = r.seq
	}
	return s
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
