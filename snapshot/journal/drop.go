package journal

import (
	"fmt"
	"strings"
)

// DropBefore gives up the segments that lie wholly before pos. What is behind
// them is made durable first. Their space is free when it returns, but for a
// few segments that are kept to be written again.
func (j *Journal) DropBefore(pos int64) error {
	if segs := j.segments(); len(segs) < 2 || segs[1].base > pos {
		return nil
	}
	// The journal must never begin, after a power cut, with a segment that did
	// not reach the disk: it would forget its position.
	if err := j.Sync(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	return j.dropFirst(pos)
}

// dropFirst drops the segments before pos. j.mu is held.
func (j *Journal) dropFirst(pos int64) error {
	segs := j.segments()
	n := 0
	for n+1 < len(segs) && segs[n+1].base <= pos && segs[n+1].base < j.durable.Load() {
		n++
	}
	if n == 0 {
		return nil
	}
	rest := append([]*segment(nil), segs[n:]...)
	j.list.Store(&rest)
	var first error
	for _, s := range segs[:n] {
		if err := j.retire(s); err != nil && first == nil {
			first = fmt.Errorf("drop journal segment %s: %w", s.name, err)
		}
	}
	// A spare may only be written once its old name is gone for good.
	if err := j.fs.SyncDir(j.dir); err != nil && first == nil {
		first = fmt.Errorf("sync the journal directory: %w", err)
	}
	if first != nil {
		j.dropSpares()
	}
	return first
}

// Shrink gives up, besides what DropBefore does, the files kept to be written
// again and, if nothing from pos on was appended, the part of the last segment
// that has been used. It is for when the log is going to rest.
func (j *Journal) Shrink(pos int64) error {
	if err := j.DropBefore(pos); err != nil {
		return err
	}
	if err := j.Sync(); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	defer j.dropSpares()
	if j.cur == nil || j.end.Load() > pos || j.durable.Load() < pos || j.off < blockSize {
		return nil
	}
	if err := j.Failed(); err != nil {
		return err
	}
	// The position must not be forgotten: a segment goes only once the next one
	// is on disk, with a record.
	if err := j.restart(); err != nil {
		return err
	}
	return j.dropFirst(pos)
}

// restart begins a new segment, and has it on disk. j.mu is held.
func (j *Journal) restart() error {
	if err := j.newSegment(recordHeader, false); err != nil {
		return err
	}
	if err := j.write(typeMark, nil, nil); err != nil {
		return err
	}
	j.marked = true
	return j.syncTo(j.end.Load())
}

// retire closes a segment that is in the list no more, and keeps its file as a
// spare or removes it.
func (j *Journal) retire(s *segment) error {
	// With the last reference gone nobody reads the file, and it can be used
	// again. Otherwise it lives, without a name, until its readers are done.
	if s.size != j.segSize || len(j.spares) >= maxSpares || !s.refs.CompareAndSwap(1, 0) {
		err := j.fs.Remove(j.path(s.name))
		if rerr := s.release(); err == nil {
			err = rerr
		}
		return err
	}
	if err := s.f.Close(); err != nil {
		return err
	}
	spare := strings.TrimSuffix(s.name, segmentSuffix) + spareSuffix
	if err := j.fs.Rename(j.path(s.name), j.path(spare)); err != nil {
		return err
	}
	j.spares = append(j.spares, spare)
	return nil
}

// dropSpares removes the spare files: after an error it is not sure that their
// old names are gone.
func (j *Journal) dropSpares() {
	for _, name := range j.spares {
		if err := j.fs.Remove(j.path(name)); err != nil {
			j.log.Warn("journal: removing a spare segment", "err", err)
		}
	}
	j.spares = nil
}
