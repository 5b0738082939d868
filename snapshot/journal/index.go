package journal

import (
	"errors"
	"io"
	"sort"
	"sync"
)

const noHeader = "there is no record header"

// markEvery is how many bytes of a segment lie between two marks, at least.
const markEvery = 4 << 10

// A recordIndex finds the record that holds a byte of a segment. It remembers
// where some of the records begin and is made by reading headers, as far as
// somebody has asked for.
type recordIndex struct {
	mu    sync.Mutex
	marks []int64    // offsets of records, ascending
	next  int64      // a record begins here, and all before it is known
	holes [][2]int64 // damaged: from the offset of what is no header to the next one
}

// recordAt returns the offset of the record that holds the byte at off, which is
// below limit, the end of a record. No such record is a *DamageError.
func (s *segment) recordAt(off, limit int64) (int64, error) {
	ix := &s.index
	ix.mu.Lock()
	if ix.next == 0 {
		ix.next = segmentHeader
	}
	for _, h := range ix.holes { // where the next header is takes long to find
		if h[0] <= off && off < h[1] {
			ix.mu.Unlock()
			return 0, s.damaged(h[0], noHeader)
		}
	}
	if off >= ix.next {
		defer ix.mu.Unlock()
		last := int64(-markEvery)
		if n := len(ix.marks); n > 0 {
			last = ix.marks[n-1]
		}
		// Who reads what was appended last, one record after the other, needs
		// little of the file each time.
		step := min(max(off-ix.next+recordHeader, markEvery), windowSize)
		return s.walkTo(ix.next, off, limit, int(step), func(at, next int64, good bool) {
			if !good {
				ix.holes = append(ix.holes, [2]int64{at, next})
			}
			if at-last >= markEvery {
				ix.marks = append(ix.marks, at)
				last = at
			}
			ix.next = next
		})
	}
	marks := ix.marks // only ever appended to
	ix.mu.Unlock()
	i := sort.Search(len(marks), func(i int) bool { return marks[i] > off }) - 1
	return s.walkTo(marks[i], off, limit, markEvery, func(at, next int64, good bool) {
		if !good {
			ix.mu.Lock()
			defer ix.mu.Unlock()
			ix.holes = append(ix.holes, [2]int64{at, next})
		}
	})
}

// walkTo goes from record to record, beginning with the one at offset at, until
// it comes to the one that holds off. It calls passed for each, with where it
// begins, where the next one does, and whether there is a header.
func (s *segment) walkTo(at, off, limit int64, step int, passed func(at, next int64, good bool)) (int64, error) {
	buf := readBuffers.Get().(*[]byte)
	win := window{r: s.f, step: step, buf: (*buf)[:0]}
	defer func() {
		*buf = win.buf[:0]
		readBuffers.Put(buf)
	}()
	for {
		h, good, err := s.headAt(&win, at, limit)
		if err != nil {
			return 0, err
		}
		next := at + recordSize(int64(h.length))
		if !good {
			if next, err = s.nextHead(&win, at+recordAlign, limit); err != nil {
				return 0, err
			}
		}
		passed(at, next, good)
		if off < next {
			if !good {
				return 0, s.damaged(at, noHeader)
			}
			return at, nil
		}
		at = next
	}
}

// headAt decodes the header at an offset; good is false if there is none.
func (s *segment) headAt(win *window, at, limit int64) (h recordHead, good bool, err error) {
	b, err := win.at(at, recordHeader)
	if err != nil {
		return h, false, s.unreadable(at, err)
	}
	h, good = getRecordHead(b, s.seed, s.base+at)
	if good && at+recordSize(int64(h.length)) > limit {
		good = false
	}
	return h, good, nil
}

// nextHead returns the offset of the first header from at on, limit if there is
// none.
func (s *segment) nextHead(win *window, at, limit int64) (int64, error) {
	for ; at+recordHeader <= limit; at += recordAlign {
		if _, good, err := s.headAt(win, at, limit); good || err != nil {
			return at, err
		}
	}
	return limit, nil
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
