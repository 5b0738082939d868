package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/vfs"
)

// Open opens the journal in a directory, which it creates if it is missing. It finds the end of the log,
// and erases incomplete records that a crash left after the end. It reads only the part of the log that is
// not known to be durable, usually the last segment.
//
// The error is a *DamageError if this part is damaged, unless Options.Salvage is set.
func Open(dir string, o Options) (*Journal, error) {
	j := &Journal{
		disk: disk{dir: dir, quarantine: o.Quarantine, fs: o.FS, segSize: o.SegmentSize, reserve: o.Reserve, freeReserve: o.FreeReserve},
		log:  o.Logger, keepDamaged: o.KeepDamaged, readOnly: o.ReadOnly, lowestPos: o.LowestPos, seq: 1,
	}
	if j.disk.fs == nil {
		j.disk.fs = vfs.OS
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}

	j.damageList.logger, j.salvage = j.log, o.Salvage
	if j.disk.reserve == nil {
		j.disk.reserve = func() int64 { return 0 }
	}
	if j.disk.segSize <= 0 {
		j.disk.segSize = DefaultSegmentSize
	}

	j.disk.segSize = (j.disk.segSize + blockSize - 1) &^ (blockSize - 1)
	j.sync.finished.L = &j.sync.mu
	j.sync.maxUnsynced = maxUnsyncedBytes
	if err := (journalOpener{j}).open(); err != nil {
		for _, s := range j.segments() {
			_ = s.f.Close() // Open has failed already
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}

	return j, nil
}

// A journalOpener is a journal during Open. Its methods find the end of the log and prepare the journal to
// append there. They take no locks, because no other goroutine uses the journal during Open.
type journalOpener struct{ log *Journal }

func (o journalOpener) open() error {
	if !o.log.readOnly {
		if err := o.log.disk.fs.MkdirAll(o.log.disk.dir, 0o700); err != nil {
			return err
		}
		if err := o.log.disk.eraseDropped(); err != nil {
			return err
		}
	}

	infos, err := o.log.disk.fs.ReadDir(o.log.disk.dir)
	if err != nil && (!o.log.readOnly || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}

	for _, i := range infos {
		base, ok := parseSegmentName(i.Name)
		if !ok || i.IsDir {
			continue
		}
		if err := o.openSegment(base, i.Name); err != nil {
			return fmt.Errorf("segment %s: %w", i.Name, err)
		}
	}

	_, _ = rand.Read(o.log.id[:])       // never fails
	o.log.sync.segmentsCreated.Store(1) // the next Sync syncs the directory, because the last run may not have
	if err := o.recover(); err != nil {
		return err
	}
	if err := o.requireEnd(o.log.lowestPos); err != nil {
		return err
	}

	if o.log.readOnly {
		o.log.firstErr.Store(&errReadOnly)
		return nil
	}

	o.log.mu.Lock()
	defer o.log.mu.Unlock()

	o.log.syncIfFarBehind()

	return nil
}

var errReadOnly error = errs.ReadOnly

// requireEnd checks that the log ends at or after pos, which is Options.LowestPos. A log that ends before pos is
// damaged; with Options.Salvage, requireEnd replaces it by an empty log that begins at pos.
func (o journalOpener) requireEnd(pos int64) error {
	if end := o.log.end.Load(); end >= pos {
		if !o.log.readOnly && end > 0 && len(o.log.segments()) == 0 {
			return o.log.startSmallSegment() // so that the next Open finds the position
		}
		return nil
	}

	d := &DamageError{Pos: o.log.end.Load(), Reason: fmt.Sprintf("the log ends at %d, and went on to %d at least", o.log.end.Load(), pos)}
	segs := o.log.segments()
	if len(segs) > 0 {
		last := segs[len(segs)-1]
		d.Segment, d.Offset = last.name, d.Pos-last.base
	}

	if err := o.log.skipDamage(d); err != nil {
		return err
	}
	if err := o.discardAll(segs, nil); err != nil {
		return err
	}

	o.log.cur.segment = nil
	o.log.end.Store(pos)
	o.log.sync.durablePos.Store(pos)
	if o.log.readOnly {
		return nil
	}

	return o.log.startSmallSegment()
}

// openSegment adds a segment to the list, even if its header is invalid: recover decides whether an
// invalid header is damage.
func (o journalOpener) openSegment(base int64, name string) error {
	f, err := o.log.disk.fs.OpenFile(o.log.disk.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}

	s := &segment{base: base, name: name, f: f}
	o.log.addSegment(s) // after an error Open closes the files of all segments in the list
	if s.size, err = f.Size(); err != nil {
		return err
	}

	win := window{r: f, lenient: o.log.salvage}
	b, err := win.bytesAt(0, segmentHeaderSize)
	if err != nil {
		return err
	}

	h, ok, err := decodeHeader(b)
	if err != nil {
		return err
	}
	if ok && h.base == base {
		s.hdr, s.seed, s.validHeader = h, h.seed(), true
	}

	return nil
}

// recover finds the end of the log and prepares the journal to append there.
func (o journalOpener) recover() error {
	segs := o.log.segments()
	for i, s := range segs { // each segment except the last ends at the base of the next segment
		if i+1 < len(segs) {
			s.end.Store(segs[i+1].base)
		}
	}

	last := len(segs) - 1 // the last segment with a valid header
	for last >= 0 && !segs[last].validHeader {
		last--
	}
	if last < 0 {
		return o.recoverEmpty(segs)
	}

	o.log.id = segs[last].hdr.id

	// Read the log from the last position that is known to be durable.
	start := max(segmentIndex(segs, segs[last].hdr.durablePos), 0)
	for start > 0 && !segs[start].validHeader {
		start--
	}

	t, err := o.scanTail(segs[start : last+1])
	if err != nil {
		return err
	}

	o.log.seq = t.seq

	// The segments after the last valid header were being created when the machine stopped, unless
	// they contain a record.
	for _, s := range segs[last+1:] {
		if err := o.checkUnused(s); err != nil {
			return err
		}
	}

	// Discard a segment that begins at the end of the log: it is empty, and Append creates it again.
	keep := segmentIndex(segs, t.end-1) + 1
	if err := o.discardAll(segs[keep:], segs[:keep]); err != nil {
		return err
	}

	return o.resumeAppending(t)
}

// A tail describes the end of the log. It is the result of scanTail.
type tail struct {
	end        int64  // position after the last record
	seq        uint64 // sequence number of the next record
	durablePos int64  // the highest durable position that a record or header states
	endsInMark bool   // the last record is a mark
}

// scanTail reads segs, the last part of the log, and finds the end of the log in it.
func (o journalOpener) scanTail(segs []*segment) (tail, error) {
	final := segs[len(segs)-1]
	sc := o.log.newScanner(segs, segs[0].base, final.base+final.size, o.log.salvage)
	t := tail{end: segs[0].base, seq: segs[0].hdr.firstSeq, durablePos: final.hdr.durablePos}
	if !segs[0].validHeader {
		t.seq = final.hdr.firstSeq // the exact number is unknown; it need only be higher than the numbers before
	}

	extend := func(r *record) {
		t = tail{end: r.end(), seq: r.seq + 1, durablePos: max(t.durablePos, r.durablePos), endsInMark: r.typ == typeMark}
	}

	for {
		r, h := sc.next()
		if r != nil {
			extend(r)
			continue
		}
		if h == nil {
			return t, nil
		}

		if h.err != nil && h.keptRecord == nil && !o.log.salvage && h.pos >= o.log.lowestPos {
			// After a read error it is unknown whether the log ends here.
			return t, h.damage()
		}
		// This gap is the end of the log, unless a record or Options.LowestPos states that the log was durable
		// beyond it. Then the gap is damage.
		if (h.err == nil || h.keptRecord == nil) && max(t.durablePos, durableAfter(sc, h), o.log.lowestPos) <= h.pos {
			return t, nil
		}

		if h.keptRecord != nil {
			o.log.addDamage(h.damage())
			sc.moveAfter(h.keptRecord)
			extend(h.keptRecord)
			continue
		}
		if !o.log.salvage && h.pos >= o.log.lowestPos {
			return t, h.damage()
		}

		// Damage before Options.LowestPos is no error of Open: Replay begins after it, and ReadAt returns it.
		o.log.addDamage(h.damage())
		sc.resync(h)
	}
}

// durableAfter returns the highest position that a record after a gap states to
// be durable. It does not move sc.
func durableAfter(sc *scanner, h *gap) (durable int64) {
	probe := *sc
	probe.win = window{r: sc.win.r, lenient: sc.win.lenient}
	for more := probe.resync(h); more; {
		r, next := probe.next()
		switch {
		case r != nil:
			durable = max(durable, r.durablePos)
		case next != nil:
			more = probe.resync(next)
		default:
			more = false
		}
	}

	return durable
}

// recoverEmpty prepares a log without a valid segment header: a new log, or a log whose first segment
// did not reach the disk. If Options.LowestPos is set, such a log is damaged: a log that was in use has a
// segment on disk, because a segment is removed only when the next segment is on disk.
func (o journalOpener) recoverEmpty(segs []*segment) error {
	found := len(o.log.Damage())

	for _, s := range segs {
		if err := o.checkUnused(s); err != nil {
			return err
		}
	}

	if len(segs) > 0 && o.log.lowestPos > 0 && len(o.log.Damage()) == found {
		d := (&gap{seg: segs[0], pos: segs[0].base, reason: reasonNoSegmentHeader}).damage()
		if err := o.log.skipDamage(d); err != nil {
			return err
		}
	}

	if len(segs) > 0 {
		o.log.end.Store(segs[0].base)
		o.log.sync.durablePos.Store(segs[0].base)
	}

	return o.discardAll(segs, nil)
}

// checkUnused returns a DamageError if a segment without a valid header contains a record.
func (o journalOpener) checkUnused(s *segment) error {
	win := window{r: s.f, lenient: o.log.salvage}
	b, err := win.bytesAt(segmentHeaderSize, recordHeaderSize)
	if err != nil {
		return fmt.Errorf("segment %s: %w", s.name, err)
	}
	if _, ok := peekRecordHead(b, s.base+segmentHeaderSize); !ok {
		return nil
	}

	return o.log.skipDamage((&gap{seg: s, pos: s.base, reason: reasonNoSegmentHeader}).damage())
}

// discardAll removes the segments after the end of the log, and makes the removal durable. kept are the
// segments before the end.
func (o journalOpener) discardAll(discarded, kept []*segment) error {
	o.log.setSegments(kept)
	var err error
	for _, s := range discarded {
		err = errors.Join(err, s.f.Close())
		if !o.log.readOnly {
			err = errors.Join(err, vfs.Erase(o.log.disk.fs, o.log.disk.path(s.name)))
		}
	}
	if err != nil || len(discarded) == 0 || o.log.readOnly {
		return err
	}

	// Sync the directory before the first append: otherwise the removed segments could be in the middle of
	// the log after a power cut.
	return o.log.disk.fs.SyncDir(o.log.disk.dir)
}

// resumeAppending makes the last segment the current segment, and erases all bytes after the end of the log.
// Otherwise valid records after a gap would belong to the log again when new records fill the gap.
func (o journalOpener) resumeAppending(t tail) error {
	o.log.end.Store(t.end)
	o.log.sync.durablePos.Store(min(t.durablePos, t.end))
	segs := o.log.segments()
	if len(segs) == 0 || !segs[len(segs)-1].validHeader {
		return nil // the first Append opens a segment
	}

	s := segs[len(segs)-1]
	s.end.Store(t.end)
	if o.log.readOnly {
		return nil
	}

	off := t.end - s.base
	erase := s.size != off
	if erase {
		if err := s.f.Truncate(off); err != nil {
			return err
		}
	}

	s.size = off
	o.log.cur = currentSegment{segment: s, off: off, endsInMark: t.endsInMark}
	if err := o.log.disk.extend(s); err != nil {
		return err
	}
	if erase {
		return o.log.syncAll()
	}

	return nil
}
