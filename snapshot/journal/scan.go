package journal

import (
	"bytes"
	"errors"
	"io"
)

// A record as it was read. The payload is good until the next one is read.
type record struct {
	recordHead
	pos     int64 // of the header
	payload []byte
}

func (r *record) end() int64 { return r.pos + recordSize(int64(r.length)) }

// A hole is a position at which there is no readable record.
type hole struct {
	seg    *segment
	pos    int64
	next   int64 // where to look on: behind a record whose payload alone is bad
	reason string
	err    error
	rec    *record // of which only bytes of a file are damaged, else nil
}

const (
	noSegmentHeader = "the segment's header is not readable"
	noHeader        = "there is no record header"
)

func (h *hole) damage() *DamageError {
	return &DamageError{Segment: h.seg.name, Offset: h.pos - h.seg.base, Pos: h.pos, Reason: h.reason, Err: h.err, Bytes: h.rec != nil}
}

// A scanner reads the records of consecutive segments in their order. The last
// segment counts up to limit, each other one up to the base of its successor.
type scanner struct {
	segs  []*segment // not empty
	limit int64
	i     int
	pos   int64
	seq   uint64 // that the next record must have; 0: any
	win   window
	bytes func(t Type, payload []byte) bool // Options.Bytes
}

func (j *Journal) newScanner(segs []*segment, from, limit int64, lenient bool) *scanner {
	s := &scanner{segs: segs, limit: limit, pos: from, win: window{lenient: lenient}, bytes: j.bytes}
	s.enter(0)
	s.pos = max(s.pos, from)
	return s
}

// enter goes to the beginning of the i-th segment.
func (s *scanner) enter(i int) {
	s.i = i
	s.win = window{r: s.segs[i].f, lenient: s.win.lenient, buf: s.win.buf[:0]}
	s.pos = s.segs[i].base + segmentHeader
}

// stop is the position at which the current segment ends.
func (s *scanner) stop() int64 {
	if s.i+1 < len(s.segs) {
		return s.segs[s.i+1].base
	}
	return s.limit
}

// next returns the next record, or the hole that is there instead, or neither
// at the end.
func (s *scanner) next() (*record, *hole) {
	for {
		seg := s.segs[s.i]
		switch {
		case !seg.good:
			return nil, &hole{seg: seg, pos: seg.base, reason: noSegmentHeader}
		case s.pos == seg.base+segmentHeader && s.seq != 0 && seg.hdr.firstSeq != s.seq:
			return nil, &hole{seg: seg, pos: seg.base, reason: "the segment does not continue the one before"}
		case s.pos < s.stop():
			r, h := s.read(s.pos)
			if r != nil && s.seq != 0 && r.seq != s.seq {
				r, h = nil, &hole{seg: seg, pos: s.pos, reason: "the record's number is out of order"}
			}
			if h != nil && h.rec != nil && s.seq != 0 && h.rec.seq != s.seq {
				h.rec = nil
			}
			if r != nil {
				s.accept(r)
			}
			return r, h
		case s.i+1 == len(s.segs):
			return nil, nil
		}
		s.enter(s.i + 1)
	}
}

// accept goes on behind a record.
func (s *scanner) accept(r *record) { s.pos, s.seq = r.end(), r.seq+1 }

// read returns the record at pos in the current segment.
func (s *scanner) read(pos int64) (*record, *hole) {
	seg := s.segs[s.i]
	bad := func(reason string, err error) (*record, *hole) {
		return nil, &hole{seg: seg, pos: pos, reason: reason, err: err}
	}
	b, err := s.win.at(pos-seg.base, recordHeader)
	if err != nil {
		return bad("the disk cannot read it", err)
	}
	head, ok := getRecordHead(b, seg.seed, pos)
	if !ok {
		return bad(noHeader, nil)
	}
	r := &record{recordHead: head, pos: pos}
	if r.end() > s.stop() {
		return bad("the record does not fit into its segment", nil)
	}
	r.payload, err = s.win.at(pos-seg.base+recordHeader, int(head.length))
	if err == nil && len(r.payload) == int(head.length) && crc(r.payload) == head.payload {
		return r, nil
	}
	h := &hole{seg: seg, pos: pos, next: r.end(), reason: "the record's checksum does not match"}
	if err != nil {
		h.reason, h.err = "the disk cannot read it", err
		w := window{r: seg.f, lenient: true}
		r.payload, _ = w.at(pos-seg.base+recordHeader, int(head.length))
	}
	if s.bytes != nil && len(r.payload) == int(head.length) && s.bytes(r.typ, r.payload) {
		h.rec = r
	}
	return nil, h
}

// resync searches behind a hole for the next good record and continues there. It reports false if
// there is none, which ends the scan.
func (s *scanner) resync(h *hole) bool {
	pos := max(h.next, h.pos+recordAlign, s.segs[s.i].base+segmentHeader)
	for {
		if s.segs[s.i].good && s.search(pos) {
			return true
		}
		if s.i+1 == len(s.segs) {
			s.pos = s.limit
			return false
		}
		s.enter(s.i + 1)
		pos = s.pos
	}
}

// search looks in the rest of the current segment for a good record that is
// later than those seen.
func (s *scanner) search(pos int64) bool {
	seg, stop := s.segs[s.i], s.stop()
	for pos+recordHeader <= stop {
		b, err := s.win.at(pos-seg.base, recordHeader)
		if err != nil {
			s.win.lenient = true // search on where it can be read
			continue
		}
		if len(b) < recordHeader {
			return false
		}
		if skip := zeroBlocks(s.win.buf[pos-seg.base-s.win.start:]); skip > 0 {
			pos += skip
			continue
		}
		if h, ok := peekRecordHead(b, pos); ok && h.seq >= s.seq {
			if r, _ := s.read(pos); r != nil {
				s.pos, s.seq = pos, r.seq
				return true
			}
		}
		pos += recordAlign
	}
	return false
}

var zeroBlock [blockSize]byte

// zeroBlocks returns the length of the run of zero blocks that b begins with.
func zeroBlocks(b []byte) int64 {
	n := 0
	for n+blockSize <= len(b) && bytes.Equal(b[n:n+blockSize], zeroBlock[:]) {
		n += blockSize
	}
	return int64(n)
}

const windowSize = 256 << 10

// A window reads a file forward through one buffer.
type window struct {
	r       io.ReaderAt
	lenient bool // what the disk cannot read is taken for zeros
	buf     []byte
	start   int64 // offset of buf[0] in the file
}

// at returns the n bytes at off, fewer where the file ends. They are good until
// the next call.
func (w *window) at(off int64, n int) ([]byte, error) {
	if off >= w.start && off+int64(n) <= w.start+int64(len(w.buf)) {
		return w.buf[off-w.start:][:n], nil
	}
	size := max(n, windowSize)
	if cap(w.buf) < size {
		w.buf = make([]byte, size)
	}
	b := w.buf[:size]
	k, err := w.r.ReadAt(b, off)
	if err != nil && !errors.Is(err, io.EOF) && k < n {
		if !w.lenient {
			w.buf = w.buf[:0]
			return nil, err
		}
		bad := b[k:max(n, min(k/blockSize*blockSize+blockSize, size))]
		clear(bad)
		k += len(bad)
	}
	w.buf, w.start = b[:k], off
	return w.buf[:min(n, k)], nil
}
