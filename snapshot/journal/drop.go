package journal

import (
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
)

// DropBefore gives up the segments that lie wholly before pos. What is behind
// them is made durable first. Their space is free when it returns.
func (j *Journal) DropBefore(pos int64) error {
	if segs := j.segments(); len(segs) < 2 || segs[1].base > pos {
		return nil
	}
	// After a power cut the journal must not begin with a segment that did not reach the disk: its
	// position would be lost.
	if err := j.Sync(); err != nil {
		return err
	}
	j.drop.Lock()
	defer j.drop.Unlock()
	return j.dropFirst(pos)
}

// dropFirst drops the segments before pos. j.drop is held, and j.mu is not:
// removing files and syncing a directory can take a tenth of a second.
func (j *Journal) dropFirst(pos int64) error {
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return errs.Closed
	}
	segs := j.segments()
	n := 0
	for n+1 < len(segs) && segs[n+1].base <= pos && segs[n+1].base < j.durable.Load() {
		n++
	}
	first, rest := segs[:n], segs[n:]
	j.set(rest)
	j.mu.Unlock()
	if n == 0 {
		return nil
	}
	var err error
	for len(first) > 0 {
		if err = j.disk.drop(first[0]); err != nil {
			// If a later segment were removed before this one, the gap would count as damage.
			err = fmt.Errorf("drop journal segment %s: %w", first[0].name, err)
			break
		}
		if cerr := first[0].f.Close(); cerr != nil {
			j.log.Warn("journal: closing a segment that is dropped", "err", cerr)
		}
		first = first[1:]
	}
	if serr := j.disk.fs.SyncDir(j.disk.dir); serr != nil && err == nil {
		err = fmt.Errorf("sync the journal directory: %w", serr)
	}
	if len(first) > 0 {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.set(append(slices.Clone(first), j.segments()...))
	}
	return err
}

// Shrink does what DropBefore does. If nothing was appended from pos on, it also replaces the last
// segment by a small one. Callers use it when they expect no more writes.
func (j *Journal) Shrink(pos int64) error {
	if err := j.DropBefore(pos); err != nil {
		return err
	}
	if err := j.Sync(); err != nil {
		return err
	}
	j.drop.Lock()
	defer j.drop.Unlock()
	// A segment is removed only when the next one is on disk, with a record: otherwise the
	// position would be lost.
	if err := j.restartAt(pos); err != nil {
		return err
	}
	return j.dropFirst(pos)
}

// restartAt begins a new segment unless something was appended from pos on or
// the present one is small and has hardly been used.
func (j *Journal) restartAt(pos int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return errs.Closed
	}
	if len(j.segments()) == 0 || j.end.Load() > pos || j.durable.Load() < pos {
		return nil
	}
	if j.cur != nil && j.off < blockSize && j.cur.size <= j.disk.rest()+blockSize && len(j.Damage()) == 0 {
		return nil // not worth it, unless damage would be met again
	}
	if err := j.Failed(); err != nil {
		return err
	}
	return j.restart()
}

// Begin writes the first segment of an empty journal to disk, so that a later Open detects that
// the journal is missing.
func (j *Journal) Begin() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments()) > 0 {
		return nil
	}
	return j.restart()
}

// restart begins a small segment and makes it durable. It works on a full disk, because it frees
// the space of the old segment. j.mu is held.
func (j *Journal) restart() error {
	if err := j.newSegment(j.disk.rest(), recordHeader, true); err != nil {
		return err
	}
	return j.mark()
}

// mark appends a mark and makes the log durable. j.mu is held.
func (j *Journal) mark() error {
	if err := j.write(typeMark, nil, nil); err != nil {
		return err
	}
	j.marked = true
	return j.syncTo(j.end.Load())
}
