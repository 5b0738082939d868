package journal

import (
	"fmt"
	"sort"
)

// locate returns the index of the segment that holds pos, -1 if it lies before
// the first one.
func locate(segs []*segment, pos int64) int {
	return sort.Search(len(segs), func(i int) bool { return segs[i].base > pos }) - 1
}

// ReadAt fills p with the bytes at a position that Append returned, or from
// within the data that was appended there. It never waits for writers. Bytes
// that are not in the journal, or not any more, are ErrPosition.
func (j *Journal) ReadAt(p []byte, pos int64) error {
	if len(p) == 0 {
		return nil
	}
	segs := j.segments()
	i := locate(segs, pos)
	if i < 0 || !segs[i].acquire() {
		return fmt.Errorf("%w: reading %d bytes at %d", ErrPosition, len(p), pos)
	}
	s := segs[i]
	err := s.readAt(p, pos)
	if rerr := s.release(); err == nil && rerr != nil {
		err = fmt.Errorf("close journal segment %s: %w", s.name, rerr)
	}
	return err
}

func (s *segment) readAt(p []byte, pos int64) error {
	if pos < s.base+segmentHeader+recordHeader || pos+int64(len(p)) > s.end.Load() {
		return fmt.Errorf("%w: reading %d bytes at %d, segment %s holds %d to %d",
			ErrPosition, len(p), pos, s.name, s.base, s.end.Load())
	}
	if n, err := s.f.ReadAt(p, pos-s.base); n < len(p) {
		return fmt.Errorf("read %d bytes of journal segment %s at %d: %w", len(p), s.name, pos-s.base, err)
	}
	return nil
}
