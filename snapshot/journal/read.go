package journal

import (
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"
	"sync/atomic"
)

// locate returns the index of the segment that holds pos, -1 if it lies before
// the first one.
func locate(segs []*segment, pos int64) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].base > pos }) - 1
}

// ReadAt fills p with the bytes at a position that Append returned, or from
// within the data that was appended there. payload is where the payload begins of
// the record that they are in. It never waits for writers.
//
// p may go on into the records behind that one, their headers included. The
// checksums of all records that p has bytes of are checked; where one does
// not match, or the disk fails, it is a *DamageError. Bytes that are not in the
// journal, or not any more, are ErrPosition.
func (j *Journal) ReadAt(p []byte, pos, payload int64) error {
	if len(p) == 0 || j.recent.read(p, pos) {
		return nil
	}
	segs := j.segments()
	i := locate(segs, pos)
	if i < 0 || !segs[i].acquire() {
		return fmt.Errorf("%w: reading %d bytes at %d", ErrPosition, len(p), pos)
	}
	s := segs[i]
	err := s.readAt(p, pos, payload-recordHeader, &j.recent)
	if rerr := s.release(); err == nil && rerr != nil {
		err = fmt.Errorf("close journal segment %s: %w", s.name, rerr)
	}
	return err
}

// readBuffers hold records while their checksums are computed.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

// readAt reads from within the record that begins at start.
func (s *segment) readAt(p []byte, pos, start int64, recent *recentReads) error {
	if start < s.base+segmentHeader || pos < start+recordHeader || pos+int64(len(p)) > s.end.Load() {
		return fmt.Errorf("%w: reading %d bytes at %d, segment %s holds %d to %d",
			ErrPosition, len(p), pos, s.name, s.base, s.end.Load())
	}
	off, from := pos-s.base, start-s.base
	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)
	r := records{s: s, from: from, limit: s.end.Load() - s.base, b: (*buf)[:0]}
	err := r.upTo(off + int64(len(p)))
	*buf = r.b
	if err != nil {
		return err
	}
	copy(p, r.b[off-from:])
	if len(r.b) >= 2*len(p) && len(r.b) >= recentMin {
		recent.keep(s.base+from, r.b)
		*buf = nil
	}
	return nil
}

// records is a run of whole records as it is read.
type records struct {
	s           *segment
	from, limit int64 // offsets; limit is the end of a record
	b           []byte
}

// upTo reads and checks the records from from on that begin before end.
func (r *records) upTo(end int64) error {
	if err := r.grow(end - r.from); err != nil {
		return err
	}
	for o := int64(0); r.from+o < end; {
		if err := r.grow(o + recordHeader); err != nil {
			return err
		}
		h, good := getRecordHead(r.b[o:], r.s.seed, r.s.base+r.from+o)
		next := o + recordSize(int64(h.length))
		if !good || r.from+next > r.limit {
			return r.s.damaged(r.from+o, noHeader)
		}
		if err := r.grow(next); err != nil {
			return err
		}
		if crc(r.b[o+recordHeader:][:h.length]) != h.payload {
			return r.s.damaged(r.from+o, "the record's checksum does not match")
		}
		o = next
	}
	return nil
}

// grow reads on until there are n bytes.
func (r *records) grow(n int64) error {
	have := int64(len(r.b))
	if n <= have {
		return nil
	}
	if n > int64(cap(r.b)) {
		b := make([]byte, have, max(n, 2*have))
		copy(b, r.b)
		r.b = b
	}
	r.b = r.b[:n]
	if k, err := r.s.f.ReadAt(r.b[have:], r.from+have); int64(k) < n-have {
		return r.s.unreadable(r.from+have, err)
	}
	return nil
}

const (
	recentMin   = 128 << 10 // bytes; smaller reads are not kept
	recentCount = 4
)

// recentReads keeps the last large records that were read, whose parts are
// usually asked for one after the other.
type recentReads struct {
	kept [recentCount]atomic.Pointer[checkedRun]
	turn atomic.Uint32
}

// A checkedRun is a part of the log whose checksums were right.
type checkedRun struct {
	pos int64
	b   []byte
}

func (r *recentReads) keep(pos int64, b []byte) {
	r.kept[r.turn.Add(1)%recentCount].Store(&checkedRun{pos, b})
}

// read fills p, if a run that is kept has all of it.
func (r *recentReads) read(p []byte, pos int64) bool {
	for i := range r.kept {
		c := r.kept[i].Load()
		if c != nil && pos >= c.pos && pos+int64(len(p)) <= c.pos+int64(len(c.b)) {
			copy(p, c.b[pos-c.pos:])
			return true
		}
	}
	return false
}

func (s *segment) damaged(at int64, reason string) *DamageError {
	return &DamageError{Segment: s.name, Offset: at, Pos: s.base + at, Reason: reason}
}

func (s *segment) unreadable(at int64, err error) *DamageError {
	if errors.Is(err, io.EOF) {
		return s.damaged(at, "the file ends there")
	}
	d := s.damaged(at, "the disk cannot read it")
	d.Err = err
	return d
}
