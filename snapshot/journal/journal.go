package journal

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// DefaultSegmentSize is the size of a segment in bytes unless Options says otherwise.
const DefaultSegmentSize = 64 << 20

// Options say how to open a journal. The zero value is good for a real disk.
type Options struct {
	FS          vfs.FS // vfs.OS if nil
	SegmentSize int64  // bytes; DefaultSegmentSize if 0
	Logger      *slog.Logger
	// Reserve returns the bytes of disk that a new segment must leave free.
	Reserve func() int64
	// GiveUp frees space that is reserved for a full disk or an exhausted quota. AppendUrgent
	// calls it if there is no other space. It may be nil.
	GiveUp func()
	// Begin is where the log begins if the directory has none. If the log ends before it, it is
	// damaged, because its owner knows a later position. Damage before it does not keep Open from
	// succeeding.
	Begin int64
	// Salvage makes Open and Replay skip what is damaged instead of failing.
	// Each place is logged and kept for Damage.
	Salvage bool
	// ReadOnly changes nothing on disk; Append and Sync are errs.ReadOnly.
	ReadOnly bool
	// Bytes reports whether a record stays valid although its payload is damaged: only bytes of
	// one file are lost. Open and Replay continue behind such a record, and reading the bytes
	// returns the damage. If it is nil, no record stays valid.
	Bytes func(t Type, payload []byte) bool
	// Quarantine is the folder to which a segment goes, instead of being removed, if the disk
	// could not read all of it. Segments are removed if it is empty.
	Quarantine string
}

// A Journal is an open log. All methods are safe for concurrent use.
type Journal struct {
	segmentList
	damages
	failure
	disk  disk
	log   *slog.Logger
	bytes func(t Type, payload []byte) bool
	reads bool // read-only
	begin int64

	end     atomic.Int64 // position after the last record
	durable atomic.Int64 // everything before it was synced
	names   atomic.Int64 // segments opened so far

	drop sync.Mutex // held while segments are removed, and while all are read

	mu       sync.Mutex // guards what follows
	id       [16]byte   // of this journal, in every segment
	cur      *segment   // nil until the first record
	off      int64      // in cur, after the last record
	seq      uint64     // of the next record
	marked   bool       // the last record is a mark
	closed   bool
	zeroed   int64 // cur has been written before up to this offset
	lastSync int64 // end when the last sync was noticed
	buf      []byte

	appended chan struct{} // closed by the next record; nil if nobody waits for it

	sync   syncState
	behind int64       // syncBehind
	soon   atomic.Bool // a Sync will begin, see SyncSoon
	recent atomic.Pointer[checkedPayload]
}

// End returns the position after the last record.
func (j *Journal) End() int64 { return j.end.Load() }

// Size returns the bytes of log that are kept.
func (j *Journal) Size() int64 {
	segs := j.segments()
	if len(segs) == 0 {
		return 0
	}
	return j.end.Load() - segs[0].base
}

// Appended returns a channel that is closed when the next record is appended.
func (j *Journal) Appended() <-chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.appended == nil {
		j.appended = make(chan struct{})
	}
	return j.appended
}

// Records returns how many records were appended since the journal was made,
// its own marks among them.
func (j *Journal) Records() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq - 1
}

// Close syncs the journal, gives the unused space of its last segment back and
// closes all files.
func (j *Journal) Close() error {
	var err error
	if !j.reads {
		err = j.Sync()
	}
	j.drop.Lock()
	defer j.drop.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errs.Closed
	}
	if err == nil && !j.reads {
		err = j.closeWriter()
	}
	j.closed = true
	segs := j.segments()
	j.set(nil)
	for _, s := range segs {
		if cerr := s.f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("close journal segment %s: %w", s.name, cerr)
		}
	}
	return err
}

// closeWriter appends a mark that all records are durable, and trims the last segment. The log is
// complete without either, so a full disk is not an error.
func (j *Journal) closeWriter() error {
	if j.cur == nil || j.closed || j.Failed() != nil {
		return j.Failed()
	}
	// Another goroutine may have appended since.
	if err := j.syncTo(j.end.Load()); err != nil {
		return err
	}
	if !j.marked && j.off+recordHeader <= j.cur.size {
		if err := j.mark(); err != nil {
			return err
		}
	}
	if err := j.cur.f.Truncate(j.off); err != nil {
		return fmt.Errorf("trim journal segment %s: %w", j.cur.name, err)
	}
	return nil
}
