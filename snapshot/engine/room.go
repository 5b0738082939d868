package engine

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
	"github.com/amberfs/amberfs/snapshot/journal"
)

const (
	// JournalMost is the size of the journal at which it is sealed even while writers are active.
	JournalMost = 1 << 30

	// maxReserve is the largest Room.Reserve.
	maxReserve = 32 << 20
	// largeRequest is larger than the bytes of any write(2). Only fallocate(2) requests more bytes;
	// it fails at once if there is not enough space.
	largeRequest = 16 << 20
	// journalSoft is the size of the journal above which writers are slowed down: JournalMost, and
	// another JournalMost for writes during a checkpoint.
	journalSoft = 2 * JournalMost
	// throttle is the time that a write waits when the journal has twice the size journalSoft.
	throttle = 20 * time.Millisecond
	// step is the largest number of bytes that are written before the free space is read again.
	// Sealing a journal of this size would free no space.
	step = 2 << 20
	// patience is how long a writer waits for a running checkpoint or gc to free space. The wait must
	// end, because the checkpoint or gc may wait for the writer.
	patience = 5 * time.Second
	// retry is the time after a failure to free space before a writer tries again, unless the
	// journal has grown.
	retry = time.Second
)

// A Room admits writes. It frees space on a nearly full disk, and slows writers down while the
// journal grows faster than it is sealed.
type Room struct {
	FS          vfs.FS
	Dir         string
	Log         *journal.Journal // nil until it is open
	Checkpoints Checkpoints
	Quiet       bool // no seals in the background

	Reserve int64        // bytes that writers leave free for seals and gc, in addition to cas.Headroom
	Limit   atomic.Int64 // largest size of the store in bytes; 0: no limit
	Stored  atomic.Int64 // bytes of packs, when last read

	mu      sync.Mutex   // one writer at a time frees space
	checked atomic.Int64 // position of the journal up to which the free space is known to suffice

	// The time of the last failure to free space, and the end of the journal at that time; guarded
	// by mu.
	failed    time.Time
	failedEnd int64
}

// SetTotal sets the reserve for a disk with the given number of bytes.
func (r *Room) SetTotal(total int64) { r.Reserve = min(maxReserve, total/16) }

// Free returns the number of bytes that can still be written. The bytes of the journal count
// twice, because they are sealed before the journal can be deleted.
func (r *Room) Free() (int64, error) {
	free, err := r.FS.Free(r.Dir)
	if err != nil {
		return 0, err
	}
	return max(0, free-r.HeldBack()), nil
}

// Left returns the number of bytes that can be stored within the free space and the limit, 0 if the
// free space cannot be read.
func (r *Room) Left() int64 {
	free, err := r.Free()
	if err != nil {
		return 0
	}
	if limit := r.Limit.Load(); limit > 0 {
		free = min(free, max(0, limit-r.Stored.Load()))
	}

	return free
}

// HeldBack returns the number of bytes that writers must leave free on the disk.
func (r *Room) HeldBack() int64 {
	n := cas.Headroom + r.Reserve
	if r.Log != nil {
		n += r.Log.Size()
	}
	return n
}

// Admit is called before n bytes are written. It returns errs.Quota beyond the byte limit and
// errs.NoSpace if the disk is full, and waits a little while the journal is too long.
func (r *Room) Admit(n int64) error {
	size := r.Log.Size()
	if limit := r.Limit.Load(); limit > 0 && n > 0 && r.Stored.Load()+size+n > limit {
		return errs.Quota
	}

	if n > largeRequest {
		if free, err := r.Free(); err == nil && n > free {
			return errs.NoSpace
		}
	} else if r.Log.End()+n > r.checked.Load() {
		if err := r.EnsureFree(n); err != nil {
			return err
		}
	}

	if r.Checkpoints.Outgrown() {
		r.Checkpoints.Ask()
	}
	if over := size - journalSoft; over > 0 && !r.Quiet {
		time.Sleep(time.Duration(min(over, journalSoft)) * throttle / journalSoft)
	}

	return nil
}

// EnsureFree returns nil if n bytes can be written, else errs.NoSpace. On a nearly full disk it
// first makes a checkpoint, which seals the journal and drops it.
func (r *Room) EnsureFree(n int64) error {
	if r.enough(n) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.enough(n) {
		return nil
	}
	if r.Log.Size() <= step || r.Quiet || r.failedEnd == r.Log.End() && time.Since(r.failed) < retry {
		return errs.NoSpace
	}

	for until := time.Now().Add(patience); !r.Checkpoints.Try() && time.Now().Before(until); time.Sleep(time.Millisecond) {
		if r.enough(n) {
			return nil
		}
	}

	r.Checkpoints.ShrinkJournal()
	if r.enough(n) {
		return nil
	}

	r.failed, r.failedEnd = time.Now(), r.Log.End()

	return errs.NoSpace
}

// enough reports whether the disk has space for n bytes, and moves checked.
func (r *Room) enough(n int64) bool {
	free, err := r.Free()
	if err == nil && free < n+step { // after an error, the write itself fails if the disk is full
		return false
	}

	// The more space is free, the more bytes are written before the free space is read again.
	r.checked.Store(r.Log.End() + n + min(max(step/4, (free-n)/64), step))
	return true
}

// JournalTooLarge reports whether the journal should be sealed because it is larger than the bytes
// that can still be written, see Free.
func (r *Room) JournalTooLarge() bool {
	if r.Checkpoints.Grown() <= step {
		return false
	}
	free, err := r.Free()
	return err == nil && free < r.Log.Size()
}
