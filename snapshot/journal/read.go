package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sort"
	"sync"

	"github.com/amberfs/amberfs/internal/vfs"
)

// segmentIndex returns the index of the segment that contains pos, or -1 if pos is before
// the first segment.
func segmentIndex(segs []*segment, pos int64) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].base > pos }) - 1
}

// ReadAt fills p with the bytes at pos, a position in the data of a record. payloadPos is the position
// at which the payload of that record begins. ReadAt does not wait for writers.
//
// It checks the record's checksum. The error is a *DamageError if the checksum is wrong or
// the disk fails, and ErrPosition if the bytes are not in the record, or not in the journal any
// more.
func (j *Journal) ReadAt(p []byte, pos, payloadPos int64) error {
	if len(p) == 0 {
		return nil
	}

	if r := j.lastPayload.Load(); r != nil && r.pos == payloadPos && pos >= r.pos && pos-r.pos+int64(len(p)) <= int64(len(r.b)) {
		copy(p, r.b[pos-r.pos:])
		return nil
	}

	segs := j.segments()
	i := segmentIndex(segs, pos)
	if i < 0 {
		return fmt.Errorf("%w: reading %d bytes at %d", ErrPosition, len(p), pos)
	}

	all, err := segs[i].readRecord(p, pos, payloadPos)
	if err != nil && !slices.Contains(j.segments(), segs[i]) {
		return fmt.Errorf("%w: segment %s was dropped meanwhile", ErrPosition, segs[i].name) // its bytes may be overwritten, so err is of no use
	}
	if all != nil {
		j.lastPayload.Store(all)
	}

	return err
}

// A checkedPayload is the payload of a record with a correct checksum.
type checkedPayload struct {
	pos int64
	b   []byte
}

// minKeptPayloadSize is the lowest size in bytes of a payload that ReadAt keeps in Journal.lastPayload: the parts of
// a large payload are usually read one after the other.
const minKeptPayloadSize = 128 << 10

// maxReadRetries is the largest number of times that a failed read is repeated.
const maxReadRetries = 2

// readBuffers are buffers for records whose checksums are computed.
var readBuffers = sync.Pool{New: func() any { return new([]byte) }}

// readRecord fills p with the bytes of a record at pos, as ReadAt does. If the payload is large and p is
// only a part of it, readRecord returns the whole payload for Journal.lastPayload, else nil.
func (s *segment) readRecord(p []byte, pos, payloadPos int64) (*checkedPayload, error) {
	start, limit := payloadPos-recordHeaderSize, s.end.Load()
	end := pos + int64(len(p))
	if start < s.base+segmentHeaderSize || pos < payloadPos || end > limit {
		return nil, fmt.Errorf("%w: reading %d bytes at %d, segment %s holds %d to %d", ErrPosition, len(p), pos, s.name, s.base, limit)
	}

	buf := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buf)

	b, err := s.readMore((*buf)[:0], start, end-start)
	*buf = b
	if err != nil {
		return nil, err
	}

	h, good := getRecordHead(b, s.seed, start)
	if !good || start+recordSize(int64(h.length)) > limit {
		return nil, s.damageAt(start-s.base, reasonNoHeader)
	}

	size := recordHeaderSize + int64(h.length)
	if end > start+size {
		return nil, fmt.Errorf("%w: reading %d bytes at %d, the record ends at %d", ErrPosition, len(p), pos, start+size)
	}

	b, err = s.readMore(b, start, size)
	*buf = b
	if err != nil {
		return nil, err
	}

	data := b[recordHeaderSize:size]
	if crc(data) != h.payloadCRC {
		return nil, s.damageAt(start-s.base, "the record's checksum does not match")
	}

	copy(p, data[pos-payloadPos:])

	if len(data) >= max(2*len(p), minKeptPayloadSize) {
		*buf = nil // the caller owns the buffer now
		return &checkedPayload{payloadPos, data}, nil
	}

	return nil, nil
}

// readMore returns the n bytes at the position start. b contains the first of these bytes.
func (s *segment) readMore(b []byte, start, n int64) ([]byte, error) {
	have := int64(len(b))
	if n <= have {
		return b, nil
	}

	b = slices.Grow(b, int(n-have))[:n]
	k, err := s.f.ReadAt(b[have:], start+have-s.base)
	for try := 0; try < maxReadRetries && int64(k) < n-have && vfs.IsDamage(err) && !errors.Is(err, io.EOF); try++ {
		k, err = s.f.ReadAt(b[have:], start+have-s.base)
	}
	if errors.Is(err, fs.ErrClosed) {
		return b, fmt.Errorf("%w: segment %s was dropped meanwhile", ErrPosition, s.name)
	}
	if int64(k) < n-have {
		return b, s.readErrorAt(start+have-s.base, err)
	}

	return b, nil
}

// damageAt returns a DamageError for an offset in the file.
func (s *segment) damageAt(off int64, reason string) *DamageError {
	return &DamageError{Segment: s.name, Offset: off, Pos: s.base + off, Reason: reason}
}

// readErrorAt returns a DamageError for an offset in the file at which a read failed with err.
func (s *segment) readErrorAt(off int64, err error) *DamageError {
	if errors.Is(err, io.EOF) {
		return s.damageAt(off, "the file ends there")
	}
	if vfs.IsDamage(err) {
		s.readFailed.Store(true)
	}

	d := s.damageAt(off, "the disk cannot read it")
	d.Err = err
	return d
}
