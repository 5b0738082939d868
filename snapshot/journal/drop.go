package journal

import (
	"errors"
	"fmt"
	"slices"
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
	j.drop.Lock()
	defer j.drop.Unlock()
	return j.dropFirst(pos)
}

// dropFirst drops the segments before pos. j.drop is held, and j.mu is not:
// removing files and syncing a directory can take a tenth of a second.
func (j *Journal) dropFirst(pos int64) error {
	first, room, err := j.cutOff(pos)
	if err != nil || len(first) == 0 {
		return err
	}
	var spares []string
	for len(first) > 0 {
		spare, rerr := j.retire(first[0], len(spares) < room)
		if rerr != nil {
			// A later one that goes would leave a gap, which is damage.
			err = fmt.Errorf("drop journal segment %s: %w", first[0].name, rerr)
			break
		}
		if spare != "" {
			spares = append(spares, spare)
		}
		first = first[1:]
	}
	// A spare may only be written once its old name is gone for good.
	if serr := j.fs.SyncDir(j.dir); serr != nil && err == nil {
		err = fmt.Errorf("sync the journal directory: %w", serr)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.spares = append(j.spares, spares...)
	if err != nil {
		j.dropSpares()
	}
	if len(first) > 0 {
		list := append(slices.Clone(first), j.segments()...)
		j.list.Store(&list)
	}
	return err
}

// cutOff takes the segments before pos off the list. room is how many of them
// may be kept as spares.
func (j *Journal) cutOff(pos int64) (first []*segment, room int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil, 0, ErrClosed
	}
	segs := j.segments()
	n := 0
	for n+1 < len(segs) && segs[n+1].base <= pos && segs[n+1].base < j.durable.Load() {
		n++
	}
	rest := append([]*segment(nil), segs[n:]...)
	j.list.Store(&rest)
	return segs[:n], maxSpares - len(j.spares), nil
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
	j.drop.Lock()
	defer j.drop.Unlock()
	defer func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.dropSpares()
	}()
	// The position must not be forgotten: a segment goes only once the next one
	// is on disk, with a record.
	if err := j.restartAt(pos); err != nil {
		return err
	}
	return j.dropFirst(pos)
}

// restartAt begins a new segment unless something was appended from pos on or
// the present one has hardly been used.
func (j *Journal) restartAt(pos int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return ErrClosed
	}
	if len(j.segments()) == 0 || j.end.Load() > pos || j.durable.Load() < pos {
		return nil
	}
	if j.cur != nil && j.off < blockSize && j.sound() {
		return nil // not worth it, unless damage would be met again
	}
	if err := j.Failed(); err != nil {
		return err
	}
	return j.restart()
}

// Begin gives an empty journal its first segment, on disk, so that the journal
// can be missed if it gets lost.
func (j *Journal) Begin() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.segments()) > 0 {
		return nil
	}
	return j.restart()
}

// restart begins a new segment, and has it on disk: also on a full disk, for this
// gives the old one back. j.mu is held.
func (j *Journal) restart() error {
	if err := j.newSegment(recordHeader, true); err != nil {
		return err
	}
	if err := j.write(typeMark, nil, nil); err != nil {
		return err
	}
	j.marked = true
	return j.syncTo(j.end.Load())
}

// retire closes a segment that is in the list no more, and removes its file or,
// if it may be kept, makes it a spare, whose name it returns. After an error the
// segment is as it was.
func (j *Journal) retire(s *segment, keep bool) (spare string, err error) {
	if keep && s.size == j.segSize {
		spare = strings.TrimSuffix(s.name, segmentSuffix) + spareSuffix
		err = j.fs.Rename(j.path(s.name), j.path(spare))
	} else {
		err = j.fs.Remove(j.path(s.name))
	}
	if err != nil {
		return "", err
	}
	// With the last reference gone nobody reads the file, and it can be used
	// again. Otherwise it lives, without a name, until its readers are done.
	unused := s.refs.CompareAndSwap(1, 0)
	var cerr error
	if unused {
		cerr = s.f.Close()
	} else {
		cerr = s.release()
	}
	if spare != "" && (!unused || cerr != nil) {
		cerr = errors.Join(cerr, j.fs.Remove(j.path(spare)))
		spare = ""
	}
	if cerr != nil {
		j.log.Warn("journal: closing a segment that is dropped", "err", cerr)
	}
	return spare, nil
}

// dropSpares removes the spare files: after an error it is not sure that their
// old names are gone. j.mu is held.
func (j *Journal) dropSpares() {
	for _, name := range j.spares {
		if err := j.fs.Remove(j.path(name)); err != nil {
			j.log.Warn("journal: removing a spare segment", "err", err)
		}
	}
	j.spares = nil
}
