package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

const (
	segmentSuffix     = ".seg"
	droppedSuffix     = ".dropped" // after segmentSuffix: the file is about to be erased
	minSegmentSize    = 1 << 20    // bytes of a segment of an idle log, and of the smallest segment on a full disk
	urgentSegmentSize = 64 << 10   // bytes of the smallest segment of an urgent Append
	blockSize         = 4096
)

// A segment is one file of the log. The file is closed when the segment is dropped.
type segment struct {
	base        int64
	name        string // base name of the file
	f           vfs.File
	hdr         header
	seed        uint32
	validHeader bool         // the file has a valid header
	size        int64        // bytes of the file that may be written; guarded by Journal.mu
	end         atomic.Int64 // position after the last record

	readFailed atomic.Bool // the disk could not read the whole file
}

func segmentName(base int64) string {
	return fmt.Sprintf("%016x%s", base, segmentSuffix)
}

// parseSegmentName returns the base position of a segment from its file name.
func parseSegmentName(name string) (int64, bool) {
	hex, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(hex) != 16 {
		return 0, false
	}

	v, err := strconv.ParseInt(hex, 16, 64)
	if err != nil || v < 0 || segmentName(v) != name {
		return 0, false
	}

	return v, true
}

// A segmentList contains the open segments in the order of their bases. Writers replace the list while
// they hold Journal.mu. A list that segments has returned never changes.
type segmentList struct{ list atomic.Pointer[[]*segment] }

func (l *segmentList) segments() []*segment {
	if list := l.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (l *segmentList) setSegments(list []*segment) { l.list.Store(&list) }

func (l *segmentList) addSegment(s *segment) { l.setSegments(append(slices.Clone(l.segments()), s)) }

// newSegment creates a segment at the end of the log, and makes it the current segment. The segment has
// size bytes, or fewer on a full disk, but at least room for need bytes of records. The caller holds j.mu.
func (j *Journal) newSegment(size, need int64, urgent bool) error {
	s, err := j.createSegment(size, segmentHeaderSize+need, urgent)
	if isFull(err) {
		return fmt.Errorf("%w: opening a segment: %w", errs.NoSpace, err)
	}
	if err != nil {
		return fmt.Errorf("open a journal segment: %w", err)
	}

	j.addSegment(s)
	j.sync.segmentsCreated.Add(1)
	j.cur.segment, j.cur.off, j.cur.zeroedEnd = s, segmentHeaderSize, 0
	j.syncIfFarBehind()

	return nil
}

// createSegment creates the file of a segment at the end of the log.
func (j *Journal) createSegment(size, need int64, urgent bool) (*segment, error) {
	base := j.end.Load()
	h := header{base: base, firstSeq: j.seq, durablePos: j.sync.durablePos.Load(), id: j.id, nonce: rand.Uint64()}
	// The header is written with the first record, in one sector: a crash that loses the header
	// also loses the record.
	s := &segment{base: base, name: segmentName(base), hdr: h, seed: h.seed()}
	s.end.Store(base)
	f, size, err := j.disk.createFile(s.name, size, need, urgent)
	if err != nil {
		return nil, err
	}

	s.f, s.size = f, size
	return s, nil
}
