package snapshot

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/amberfs/amberfs/cas"
	"github.com/amberfs/amberfs/internal/errs"
)

const (
	// maxReserve is what writers leave of a large disk beside the headroom of the
	// chunk store, so that seals and gc can go on when they are refused.
	maxReserve = 32 << 20
	// minSegment is the size of the journal's segments on a small disk.
	minSegment = 2 << 20
	// largeRequest is more than one write(2) can bring: only fallocate(2) asks
	// for it, and wants to hear at once that there is no room.
	largeRequest = 16 << 20
	// journalSoft is the size of the journal from which on writers wait: what makes a
	// checkpoint due, and as much again while it is under way.
	journalSoft = 2 * checkpointMost
	// throttle is how long a write waits when the journal is twice that.
	throttle = 20 * time.Millisecond
	// roomStep is how many bytes are written between two looks at the disk, and
	// of a journal as small as that nothing can be gained.
	roomStep = 2 << 20
	// roomWait is how long a writer waits for a checkpoint or gc that is under way
	// to make room, which may in turn wait for what the writer is to do next.
	roomWait = 5 * time.Second
	// roomRetry is how long it is not tried again to make room where there was
	// none, as long as nothing changes.
	roomRetry = time.Second
)

// room is what admit knows of the disk.
type room struct {
	*core
	seal  *sealer
	ckpt  *checkpointer
	meter *meter

	reserve int64        // bytes that writers leave for seals and gc
	limit   atomic.Int64 // bytes the store may take; 0: no limit
	stored  atomic.Int64 // bytes it took lately

	one     sync.Mutex   // one writer at a time makes room
	checked atomic.Int64 // end of the journal up to which there was enough

	// When it was last found that no room can be made, and the end of the journal
	// then; guarded by one.
	none time.Time
	end  int64
}

// Free returns how many bytes can still be written. What the journal holds needs
// as much again, to be sealed before the journal can go.
func (s *Store) Free() (int64, error) { return s.room.free() }

func (r *room) free() (int64, error) {
	free, err := r.opt.FS.Free(r.dir)
	if err != nil {
		return 0, err
	}
	return max(0, free-r.heldBack()), nil
}

// heldBack is what writers have to leave of the disk, in bytes.
func (r *room) heldBack() int64 {
	n := cas.Headroom + r.reserve
	if r.log != nil { // the journal asks while it opens, too
		n += r.log.Size()
	}
	return n
}

// admit is asked before bytes are written. It refuses what goes beyond the
// byte limits or the disk, and slows writers down when the journal grows faster
// than it is sealed.
func (r *room) admit(view uint32, n int64) error {
	if err := r.meter.admitFork(view, n); err != nil {
		return err
	}
	size := r.log.Size()
	if limit := r.limit.Load(); limit > 0 && n > 0 && r.stored.Load()+size+n > limit {
		return errs.Quota
	}
	if n > largeRequest {
		if free, err := r.free(); err == nil && n > free {
			return errs.NoSpace
		}
	} else if r.log.End()+n > r.checked.Load() {
		if err := r.makeRoom(n); err != nil {
			return err
		}
	}
	if r.ckpt.outgrown() {
		r.ckpt.signal.Up()
	}
	if over := size - journalSoft; over > 0 && !r.opt.Quiet {
		time.Sleep(time.Duration(min(over, journalSoft)) * throttle / journalSoft)
	}
	return nil
}

// makeRoom returns when n bytes can be written, or is ErrNoSpace. On a disk that
// is nearly full it has the journal sealed and dropped first.
func (r *room) makeRoom(n int64) error {
	enough := func() bool {
		free, err := r.free()
		if err != nil || free >= n+roomStep { // a disk that cannot tell says so at the write
			// Where there is plenty, less often.
			r.checked.Store(r.log.End() + n + min(max(roomStep/4, (free-n)/64), roomStep))
			return true
		}
		return false
	}
	if enough() {
		return nil
	}
	r.one.Lock()
	defer r.one.Unlock()
	if enough() {
		return nil
	}
	if r.log.Size() <= roomStep || r.opt.Quiet {
		return errs.NoSpace
	}
	if r.end == r.log.End() && time.Since(r.none) < roomRetry {
		return errs.NoSpace
	}
	for until := time.Now().Add(roomWait); !r.ckpt.mu.TryLock(); time.Sleep(time.Millisecond) {
		if enough() {
			return nil
		}
		if time.Now().After(until) {
			return r.noRoom()
		}
	}
	err := func() error {
		defer r.ckpt.mu.Unlock()
		defer r.seal.pacer.Urgent()()
		return r.ckpt.checkpoint(r.loops.Context)
	}()
	if err != nil {
		r.logger.Warn("the disk is nearly full, and the journal cannot be sealed", "err", err)
	}
	r.ckpt.shrinkJournal()
	if enough() {
		return nil
	}
	return r.noRoom()
}

// noRoom notes that there is none. room.one is held.
func (r *room) noRoom() error {
	r.none, r.end = time.Now(), r.log.End()
	return errs.NoSpace
}

// crowded reports whether what was journaled since the last checkpoint takes so
// much of a nearly full disk that it had better be sealed.
func (r *room) crowded() bool {
	if r.ckpt.grown() <= roomStep {
		return false
	}
	free, err := r.free()
	return err == nil && free < r.log.Size()
}
