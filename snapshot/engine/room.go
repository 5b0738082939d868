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
	// JournalSealSize is the size of the journal at which it is sealed even while writers are active.
	JournalSealSize = 1 << 30

	// maxReserveBytes is the largest Room.ReserveBytes.
	maxReserveBytes = 32 << 20
	// largeRequestBytes is larger than the bytes of any write(2). Only fallocate(2) requests more bytes;
	// it fails at once if there is not enough space.
	largeRequestBytes = 16 << 20
	// journalSoftLimitBytes is the size of the journal above which writers are slowed down: JournalSealSize, and
	// another JournalSealSize for writes during a checkpoint.
	journalSoftLimitBytes = 2 * JournalSealSize
	// maxThrottleDelay is the time that a write waits when the journal has twice the size journalSoftLimitBytes.
	maxThrottleDelay = 20 * time.Millisecond
	// maxUncheckedBytes is the largest number of bytes that are written before the free space is read again.
	// A journal of at most this size is not sealed to free space, because that would free none.
	maxUncheckedBytes = 2 << 20
	// maxFreeWait is how long a writer waits for a running checkpoint or gc to free space. The wait must
	// end, because the checkpoint or gc may wait for the writer.
	maxFreeWait = 5 * time.Second
	// freeRetryDelay is the time after a failure to free space before a writer tries again, unless the
	// journal has grown.
	freeRetryDelay = time.Second
)

// A Room admits writes. It frees space on a nearly full disk, and slows writers down while the
// journal grows faster than it is sealed.
type Room struct {
	FS          vfs.FS
	Dir         string
	Log         *journal.Journal // nil until it is open
	Checkpoints Checkpoints
	NoSeals     bool // no seals in the background

	ReserveBytes int64        // bytes that writers leave free for seals and gc, in addition to cas.Headroom
	SizeLimit    atomic.Int64 // largest size of the store in bytes; 0: no limit
	StoredBytes  atomic.Int64 // bytes of packs, when last read

	mu         sync.Mutex   // one writer at a time frees space
	checkedEnd atomic.Int64 // up to this position of the journal the free space is known to suffice

	// The time of the last failure to free space, and the end of the journal at that time; guarded
	// by mu.
	failedAt  time.Time
	failedEnd int64
}

// SetDiskSize sets the reserve for a disk with the given number of bytes.
func (r *Room) SetDiskSize(total int64) { r.ReserveBytes = min(maxReserveBytes, total/16) }

// FreeBytes returns the number of bytes that can still be written. The bytes of the journal count
// twice, because they are sealed before the journal can be deleted.
func (r *Room) FreeBytes() (int64, error) {
	free, err := r.FS.Free(r.Dir)
	if err != nil {
		return 0, err
	}
	return max(0, free-r.ReservedBytes()), nil
}

// StorableBytes returns the number of bytes that can be stored within the free space and the limit, 0 if the
// free space cannot be read.
func (r *Room) StorableBytes() int64 {
	free, err := r.FreeBytes()
	if err != nil {
		return 0
	}
	if limit := r.SizeLimit.Load(); limit > 0 {
		free = min(free, max(0, limit-r.StoredBytes.Load()))
	}

	return free
}

// ReservedBytes returns the number of bytes that writers must leave free on the disk.
func (r *Room) ReservedBytes() int64 {
	n := cas.Headroom + r.ReserveBytes
	if r.Log != nil {
		n += r.Log.Size()
	}
	return n
}

// Admit is called before n bytes are written. It returns errs.Quota if the store would exceed its byte limit, and
// errs.NoSpace if the disk is full. If the journal is too large, it waits a little.
func (r *Room) Admit(n int64) error {
	size := r.Log.Size()
	if limit := r.SizeLimit.Load(); limit > 0 && n > 0 && r.StoredBytes.Load()+size+n > limit {
		return errs.Quota
	}

	if n > largeRequestBytes {
		if free, err := r.FreeBytes(); err == nil && n > free {
			return errs.NoSpace
		}
	} else if r.Log.End()+n > r.checkedEnd.Load() {
		if err := r.EnsureFree(n); err != nil {
			return err
		}
	}

	if r.Checkpoints.JournalOutgrown() {
		r.Checkpoints.CheckSoon()
	}
	if over := size - journalSoftLimitBytes; over > 0 && !r.NoSeals {
		time.Sleep(time.Duration(min(over, journalSoftLimitBytes)) * maxThrottleDelay / journalSoftLimitBytes)
	}

	return nil
}

// EnsureFree returns nil if n bytes can be written, else errs.NoSpace. On a nearly full disk it
// first makes a checkpoint, which seals the journal and drops it.
func (r *Room) EnsureFree(n int64) error {
	if r.checkAndNoteSpace(n) {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.checkAndNoteSpace(n) {
		return nil
	}
	if r.Log.Size() <= maxUncheckedBytes || r.NoSeals || r.failedEnd == r.Log.End() && time.Since(r.failedAt) < freeRetryDelay {
		return errs.NoSpace
	}

	for until := time.Now().Add(maxFreeWait); !r.Checkpoints.TryCheckpoint() && time.Now().Before(until); time.Sleep(time.Millisecond) {
		if r.checkAndNoteSpace(n) {
			return nil
		}
	}

	r.Checkpoints.ShrinkJournal()
	if r.checkAndNoteSpace(n) {
		return nil
	}

	r.failedAt, r.failedEnd = time.Now(), r.Log.End()

	return errs.NoSpace
}

// checkAndNoteSpace reports whether the disk has space for n bytes. If so, it moves checkedEnd behind them.
func (r *Room) checkAndNoteSpace(n int64) bool {
	free, err := r.FreeBytes()
	if err == nil && free < n+maxUncheckedBytes { // if the free space cannot be read, the write itself fails on a full disk
		return false
	}

	// The more space is free, the more bytes are written before the free space is read again.
	r.checkedEnd.Store(r.Log.End() + n + min(max(maxUncheckedBytes/4, (free-n)/64), maxUncheckedBytes))
	return true
}

// JournalTooLarge reports whether the journal should be sealed because it is larger than the bytes that can still
// be written, see FreeBytes.
func (r *Room) JournalTooLarge() bool {
	if r.Checkpoints.JournalGrowth() <= maxUncheckedBytes {
		return false
	}
	free, err := r.FreeBytes()
	return err == nil && free < r.Log.Size()
}
