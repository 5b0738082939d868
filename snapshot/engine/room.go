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
	// JournalMost is the size of the journal at which it is sealed although writers are active.
	JournalMost = 1 << 30

	// maxReserve is what writers leave of a large disk beside the headroom of the
	// chunk store, so that seals and gc can go on when they are refused.
	maxReserve = 32 << 20
	// largeRequest is more than one write(2) has. Only fallocate(2) asks for it, and fails at
	// once when there is no room.
	largeRequest = 16 << 20
	// journalSoft is the size of the journal from which on writers are slowed down: JournalMost,
	// and as much again while a checkpoint is under way.
	journalSoft = 2 * JournalMost
	// throttle is how long a write waits when the journal is twice that.
	throttle = 20 * time.Millisecond
	// step is how many bytes are written at most before the free space is read again. Sealing a
	// journal of that size frees nothing.
	step = 2 << 20
	// patience is how long a writer waits for a checkpoint or gc that is under way to make room.
	// It ends because they may wait for what the writer does next.
	patience = 5 * time.Second
	// retry is the time before making room is tried again after it failed, if nothing changed.
	retry = time.Second
)

// A Room says whether more can be written: it makes room on a nearly full disk, and slows
// writers down while the journal grows faster than it is sealed.
type Room struct {
	FS          vfs.FS
	Dir         string
	Log         *journal.Journal // nil while it is opened
	Checkpoints Checkpoints
	Quiet       bool // nothing is sealed in the background

	Reserve int64        // bytes that writers leave for seals and gc
	Limit   atomic.Int64 // bytes the store may take; 0: no limit
	Stored  atomic.Int64 // bytes of packs, as last read

	mu      sync.Mutex   // one writer at a time makes room
	checked atomic.Int64 // end of the journal up to which there was enough

	// When no room could be made last, and the end of the journal then; guarded by mu.
	failed    time.Time
	failedEnd int64
}

// SetTotal sets the reserve for a disk of so many bytes.
func (r *Room) SetTotal(total int64) { r.Reserve = min(maxReserve, total/16) }

// Free returns how many bytes can still be written. What the journal holds needs
// as much again, to be sealed before the journal can go.
func (r *Room) Free() (int64, error) {
	free, err := r.FS.Free(r.Dir)
	if err != nil {
		return 0, err
	}
	return max(0, free-r.HeldBack()), nil
}

// Left is how many bytes can be stored, by the disk and the limit.
func (r *Room) Left() int64 {
	free, err := r.Free()
	if limit := r.Limit.Load(); limit > 0 {
		free = min(free, max(0, limit-r.Stored.Load()))
	}
	if err != nil {
		return 0
	}
	return free
}

// HeldBack is what writers have to leave of the disk, in bytes.
func (r *Room) HeldBack() int64 {
	n := cas.Headroom + r.Reserve
	if r.Log != nil {
		n += r.Log.Size()
	}
	return n
}

// Admit is asked before n bytes are written. It refuses what goes beyond the byte limit or
// the disk, and waits while the journal is too long.
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

// EnsureFree returns when n bytes can be written, or an errs.NoSpace. On a disk that is nearly
// full it has the journal sealed and dropped first.
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

func (r *Room) enough(n int64) bool {
	free, err := r.Free()
	if err == nil && free < n+step { // after an error the write itself fails, if there is no space
		return false
	}
	// The more space there is, the more is written before the next look.
	r.checked.Store(r.Log.End() + n + min(max(step/4, (free-n)/64), step))
	return true
}

// JournalTooLarge reports whether what was journaled since the last checkpoint takes so
// much of a nearly full disk that it had better be sealed.
func (r *Room) JournalTooLarge() bool {
	if r.Checkpoints.Grown() <= step {
		return false
	}
	free, err := r.Free()
	return err == nil && free < r.Log.Size()
}
