package journal

import (
	"bytes"
	"errors"
	"io"
)

// A record is a record that a scanner has read.
type record struct {
	recordHead
	pos     int64  // position of the header
	payload []byte // valid until the scanner reads the next record
}

func (r *record) end() int64 { return r.pos + recordSize(int64(r.length)) }

// A gap is a position without a valid record.
type gap struct {
	seg        *segment
	pos        int64
	recordEnd  int64 // the end of the record if only its payload is damaged, else 0
	reason     string
	err        error   // the error of the disk, or nil
	keptRecord *record // the record if Options.KeepDamaged accepts it although its payload is damaged, else nil
}

const (
	reasonNoSegmentHeader = "the segment's header is not readable"
	reasonNoHeader        = "there is no record header"
)

func (h *gap) damage() *DamageError {
	return &DamageError{Segment: h.seg.name, Offset: h.pos - h.seg.base, Pos: h.pos, Reason: h.reason, Err: h.err, OnlyBytes: h.keptRecord != nil}
}

// A scanner reads the records of consecutive segments in their order.
type scanner struct {
	segs        []*segment // not empty
	limit       int64      // position at which the last segment ends; each other segment ends at the base of the next
	i           int        // index of the present segment
	pos         int64      // position of the next record
	seq         uint64     // sequence number that the next record must have; 0 if any is valid
	win         window
	keepDamaged func(t Type, payload []byte) bool // Options.KeepDamaged
}

// newScanner returns a scanner that begins at the position start. With lenient, bytes that the disk
// cannot read count as zeros.
func (j *Journal) newScanner(segs []*segment, start, limit int64, lenient bool) *scanner {
	s := &scanner{segs: segs, limit: limit, pos: start, win: window{lenient: lenient}, keepDamaged: j.keepDamaged}
	s.enterSegment(0)
	s.pos = max(s.pos, start)
	return s
}

// enterSegment moves the scanner to the beginning of the segment with index i.
func (s *scanner) enterSegment(i int) {
	s.i = i
	s.win = window{r: s.segs[i].f, lenient: s.win.lenient, buf: s.win.buf[:0]}
	s.pos = s.segs[i].base + segmentHeaderSize
}

// segmentEnd returns the position at which the present segment ends.
func (s *scanner) segmentEnd() int64 {
	if s.i+1 < len(s.segs) {
		return s.segs[s.i+1].base
	}
	return s.limit
}

// next returns the next record, or a gap in its place. At the end of the segments it returns
// nil for both.
func (s *scanner) next() (*record, *gap) {
	for {
		seg := s.segs[s.i]
		switch {
		case !seg.validHeader:
			return nil, &gap{seg: seg, pos: seg.base, reason: reasonNoSegmentHeader}
		case s.pos == seg.base+segmentHeaderSize && s.seq != 0 && seg.hdr.firstSeq != s.seq:
			return nil, &gap{seg: seg, pos: seg.base, reason: "the segment does not continue the one before"}
		case s.pos < s.segmentEnd():
			r, h := s.readRecord(s.pos)
			if r != nil && s.seq != 0 && r.seq != s.seq {
				r, h = nil, &gap{seg: seg, pos: s.pos, reason: "the record's number is out of order"}
			}
			if h != nil && h.keptRecord != nil && s.seq != 0 && h.keptRecord.seq != s.seq {
				h.keptRecord = nil
			}
			if r != nil {
				s.moveAfter(r)
			}

			return r, h

		case s.i+1 == len(s.segs):
			return nil, nil
		}

		s.enterSegment(s.i + 1)
	}
}

// moveAfter moves the scanner to the end of a record.
func (s *scanner) moveAfter(r *record) { s.pos, s.seq = r.end(), r.seq+1 }

// readRecord returns the record at pos in the present segment, or a gap in its place.
func (s *scanner) readRecord(pos int64) (*record, *gap) {
	seg := s.segs[s.i]
	bad := func(reason string, err error) (*record, *gap) {
		return nil, &gap{seg: seg, pos: pos, reason: reason, err: err}
	}
	b, err := s.win.bytesAt(pos-seg.base, recordHeaderSize)
	if err != nil {
		return bad("the disk cannot read it", err)
	}

	head, ok := getRecordHead(b, seg.seed, pos)
	if !ok {
		return bad(reasonNoHeader, nil)
	}

	r := &record{recordHead: head, pos: pos}
	if r.end() > s.segmentEnd() {
		return bad("the record does not fit into its segment", nil)
	}

	r.payload, err = s.win.bytesAt(pos-seg.base+recordHeaderSize, int(head.length))
	if err == nil && len(r.payload) == int(head.length) && crc(r.payload) == head.payloadCRC {
		return r, nil
	}

	// The header is valid and the payload is damaged. Options.KeepDamaged may accept it.
	h := &gap{seg: seg, pos: pos, recordEnd: r.end(), reason: "the record's checksum does not match"}
	if err != nil {
		h.reason, h.err = "the disk cannot read it", err
		w := window{r: seg.f, lenient: true}
		r.payload, _ = w.bytesAt(pos-seg.base+recordHeaderSize, int(head.length))
	}

	if s.keepDamaged != nil && len(r.payload) == int(head.length) && s.keepDamaged(r.typ, r.payload) {
		h.keptRecord = r
	}

	return nil, h
}

// resync moves the scanner to the next valid record after a gap. It returns false if no valid record
// follows: then the scan ends.
func (s *scanner) resync(h *gap) bool {
	pos := max(h.recordEnd, h.pos+recordAlign, s.segs[s.i].base+segmentHeaderSize)

	for {
		if s.segs[s.i].validHeader && s.seekValid(pos) {
			return true
		}

		if s.i+1 == len(s.segs) {
			s.pos = s.limit
			return false
		}

		s.enterSegment(s.i + 1)
		pos = s.pos
	}
}

// seekValid moves the scanner to the first valid record at or after pos in the present segment whose sequence
// number is at least s.seq. It returns false if the segment has no such record.
func (s *scanner) seekValid(pos int64) bool {
	seg, stop := s.segs[s.i], s.segmentEnd()
	for pos+recordHeaderSize <= stop {
		b, err := s.win.bytesAt(pos-seg.base, recordHeaderSize)
		if err != nil {
			s.win.lenient = true // read again; bytes that the disk cannot read now count as zeros
			continue
		}
		if len(b) < recordHeaderSize {
			return false
		}

		if skip := zeroBlocks(s.win.buf[pos-seg.base-s.win.start:]); skip > 0 {
			pos += skip
			continue
		}

		if h, ok := peekRecordHead(b, pos); ok && h.seq >= s.seq {
			if r, _ := s.readRecord(pos); r != nil {
				s.pos, s.seq = pos, r.seq
				return true
			}
		}

		pos += recordAlign
	}

	return false
}

var zeroBlock [blockSize]byte

// zeroBlocks returns the length of the run of zero blocks at the beginning of b.
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
	lenient bool // bytes that the disk cannot read count as zeros
	buf     []byte
	start   int64 // offset of buf[0] in the file
}

// bytesAt returns the n bytes at the offset off, or fewer at the end of the file. The bytes are valid until
// the next call.
func (w *window) bytesAt(off int64, n int) ([]byte, error) {
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

		// Replace the rest of the block, or of the n bytes, by zeros.
		bad := b[k:max(n, min(k/blockSize*blockSize+blockSize, size))]
		clear(bad)
		k += len(bad)
	}

	w.buf, w.start = b[:k], off
	return w.buf[:min(n, k)], nil
}
