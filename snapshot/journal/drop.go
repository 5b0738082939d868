package journal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/amberfs/amberfs/internal/errs"
)

// DropBefore removes the segments that end at or before pos. Before that it makes the rest of the log
// durable. When it returns, the space of the segments is free.
func (j *Journal) DropBefore(pos int64) error {
	if segs := j.segments(); len(segs) < 2 || segs[1].base > pos {
		return nil
	}
	// The new first segment must be on disk: if a power cut lost it, the position of the log would
	// be unknown.
	if err := j.Sync(); err != nil {
		return err
	}

	j.dropMu.Lock()
	defer j.dropMu.Unlock()

	return j.dropSegmentsBefore(pos)
}

// dropSegmentsBefore drops the segments before pos. The caller holds j.dropMu, but not j.mu, because the removal
// of files and the sync of a directory can take a tenth of a second.
func (j *Journal) dropSegmentsBefore(pos int64) error {
	j.mu.Lock()

	if j.closed {
		j.mu.Unlock()
		return errs.Closed
	}

	segs := j.segments()
	n := 0
	for n+1 < len(segs) && segs[n+1].base <= pos && segs[n+1].base < j.sync.durablePos.Load() {
		n++
	}

	first, rest := segs[:n], segs[n:]
	j.setSegments(rest)
	j.mu.Unlock()
	if n == 0 {
		return nil
	}

	var err error

	for len(first) > 0 {
		if err = j.disk.drop(first[0]); err != nil {
			// Stop: if a later segment were removed, the log would have a gap, which counts as damage.
			err = fmt.Errorf("drop journal segment %s: %w", first[0].name, err)
			break
		}

		if cerr := first[0].f.Close(); cerr != nil {
			j.log.Warn("journal: closing a segment that is dropped", "err", cerr)
		}

		first = first[1:]
	}

	if len(first) > 0 { // the segments in first are still on disk
		j.mu.Lock()
		j.setSegments(append(slices.Clone(first), j.segments()...))
		j.mu.Unlock()
	}

	// Make the removal durable before the segments are overwritten: a partly overwritten segment must not
	// be in the log again after a crash.
	if serr := j.disk.fs.SyncDir(j.disk.dir); serr != nil {
		return errors.Join(err, fmt.Errorf("sync the journal directory: %w", serr))
	}

	return errors.Join(err, j.disk.eraseDropped())
}

// Shrink drops segments as DropBefore does. If the log ends at pos, it also replaces the last segment by a
// small one. Callers use Shrink when they expect no more writes.
func (j *Journal) Shrink(pos int64) error {
	if err := j.DropBefore(pos); err != nil {
		return err
	}
	if err := j.Sync(); err != nil {
		return err
	}

	j.dropMu.Lock()
	defer j.dropMu.Unlock()

	// The new segment, with a record, must be on disk before the old segment is removed: otherwise a power
	// cut could lose the position of the log.
	if err := j.replaceLastSegment(pos); err != nil {
		return err
	}

	return j.dropSegmentsBefore(pos)
}

// replaceLastSegment begins a new segment, unless the log ends after pos, or the present segment is small and
// almost empty.
func (j *Journal) replaceLastSegment(pos int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()

	if j.closed {
		return errs.Closed
	}
	if len(j.segments()) == 0 || j.end.Load() > pos || j.sync.durablePos.Load() < pos {
		return nil
	}
	if j.cur.segment != nil && j.cur.off < blockSize && j.cur.size <= j.disk.idleSize()+blockSize && len(j.Damage()) == 0 {
		return nil // a small segment stays in use, unless it is damaged: after its replacement, the next Open finds no damage
	}
	if err := j.WriteErr(); err != nil {
		return err
	}

	return j.startSmallSegment()
}

// Roll begins a new segment and returns its position base, so that a later DropBefore can remove all earlier
// records. This DropBefore overwrites the earlier segments before it frees their space.
func (j *Journal) Roll() (base int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()

	switch {
	case j.closed:
		return 0, errs.Closed
	case j.WriteErr() != nil:
		return 0, j.WriteErr()
	}

	base = j.end.Load()
	j.disk.eraseBefore.Store(base)

	return base, j.startSmallSegment()
}

// FirstPos returns the position of the oldest segment that was not dropped.
func (j *Journal) FirstPos() int64 {
	if segs := j.segments(); len(segs) > 0 {
		return segs[0].base
	}
	return j.End()
}

// CreateFirstSegment writes the first segment of an empty journal to disk, so that a later Open detects the loss
// of the journal.
func (j *Journal) CreateFirstSegment() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments()) > 0 {
		return nil
	}
	return j.startSmallSegment()
}

// startSmallSegment begins a small segment and makes it durable. It may use Options.Reserve on a full disk, because
// the old segment can be removed afterwards. The caller holds j.mu.
func (j *Journal) startSmallSegment() error {
	if err := j.newSegment(j.disk.idleSize(), recordHeaderSize, true); err != nil {
		return err
	}
	return j.appendMark()
}

// appendMark appends a mark and makes the log durable. The caller holds j.mu.
func (j *Journal) appendMark() error {
	if err := j.writeRecord(typeMark, nil, nil); err != nil {
		return err
	}
	j.cur.endsInMark = true
	return j.syncTo(j.end.Load())
}
