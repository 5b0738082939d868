package journal

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// DefaultSegmentSize is the size of a segment in bytes if Options.SegmentSize is 0.
const DefaultSegmentSize = 64 << 20

// Options are the parameters of a journal. The zero value has the defaults.
type Options struct {
	FS          vfs.FS // vfs.OS if nil
	SegmentSize int64  // bytes; DefaultSegmentSize if 0
	Logger      *slog.Logger
	// Reserve returns the number of bytes of disk space that a new segment must leave free.
	Reserve func() int64
	// FreeReserve frees space that is reserved for a full disk or an exhausted quota. An urgent
	// Append calls FreeReserve when it finds no other space. FreeReserve may be nil.
	FreeReserve func()
	// LowestPos is the lowest position that the owner of the log needs. If the directory is empty, the
	// log begins there. A log that ends before LowestPos is damaged. Damage before LowestPos does not make
	// Open fail.
	LowestPos int64
	// Salvage makes Open and Replay skip damaged places instead of failing. Damage returns these
	// places, and each is logged.
	Salvage bool
	// ReadOnly makes Open change no file. Append and Sync then fail with errs.ReadOnly.
	ReadOnly bool
	// KeepDamaged reports whether a record stays valid although its payload is damaged, because only bytes
	// of one file are lost. Open and Replay continue with the next record, and ReadAt of the bytes
	// returns the damage. If KeepDamaged is nil, no damaged record stays valid.
	KeepDamaged func(t Type, payload []byte) bool
	// Quarantine is a folder. If the disk could not read all of a segment, DropBefore moves the
	// segment there. If Quarantine is "", DropBefore removes the segment.
	Quarantine string
}

// A Journal is an open log. All methods are safe for concurrent use.
type Journal struct {
	segmentList
	damageList
	failure
	disk        disk
	log         *slog.Logger
	keepDamaged func(t Type, payload []byte) bool
	readOnly    bool  // Options.ReadOnly
	lowestPos   int64 // Options.LowestPos

	dropMu sync.Mutex   // held while segments are removed, and by Replay and Verify
	end    atomic.Int64 // position after the last record

	mu         sync.Mutex // guards the fields up to nextAppend
	id         [16]byte   // random; in the header of every segment
	cur        currentSegment
	seq        uint64 // sequence number of the next record
	closed     bool
	nextAppend chan struct{} // closed by the next Append; nil without a waiter

	sync        syncState
	lastPayload atomic.Pointer[checkedPayload]
}

// A currentSegment is the segment to which records are appended, nil before the first record.
type currentSegment struct {
	*segment
	off        int64  // offset in the file after the last record
	endsInMark bool   // the last record of the log is a mark
	zeroedEnd  int64  // offset up to which zeroAhead has written
	lastSync   int64  // end of the log at the last sync that zeroAhead has seen
	buf        []byte // buffer of Journal.writeRecord
}

// End returns the position after the last record.
func (j *Journal) End() int64 { return j.end.Load() }

// Size returns the size of the log in bytes, without dropped segments.
func (j *Journal) Size() int64 {
	segs := j.segments()
	if len(segs) == 0 {
		return 0
	}
	return j.end.Load() - segs[0].base
}

// NextAppend returns a channel that is closed when the next record is appended.
func (j *Journal) NextAppend() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.nextAppend == nil {
		j.nextAppend = make(chan struct{})
	}
	return j.nextAppend
}

// RecordCount returns the number of records, including marks, that were appended since the journal was
// created.
func (j *Journal) RecordCount() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq - 1
}

// Close syncs the journal, frees the unused space of its last segment and
// closes all files.
func (j *Journal) Close() error {
	var err error
	if !j.readOnly {
		err = j.Sync()
	}

	j.dropMu.Lock()
	defer j.dropMu.Unlock()

	j.mu.Lock()
	defer j.mu.Unlock()

	if j.closed {
		return errs.Closed
	}
	if err == nil && !j.readOnly {
		err = j.closeWriter()
	}

	j.closed = true
	segs := j.segments()
	j.setSegments(nil)

	for _, s := range segs {
		if cerr := s.f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close journal segment %s: %w", s.name, cerr)
		}
	}

	return err
}

// closeWriter appends a mark and cuts off the unused space of the last segment. If the segment is full, it
// appends no mark: the log is valid without a mark, too. The caller holds j.mu.
func (j *Journal) closeWriter() error {
	if j.cur.segment == nil || j.closed || j.WriteErr() != nil {
		return j.WriteErr()
	}
	// Another goroutine may have appended a record after the sync of Close.
	if err := j.syncTo(j.end.Load()); err != nil {
		return err
	}

	if !j.cur.endsInMark && j.cur.off+recordHeaderSize <= j.cur.size {
		if err := j.appendMark(); err != nil {
			return err
		}
	}

	if err := j.cur.f.Truncate(j.cur.off); err != nil {
		return fmt.Errorf("trim journal segment %s: %w", j.cur.name, err)
	}

	return nil
}
