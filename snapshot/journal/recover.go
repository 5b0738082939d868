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

// Open opens the journal in a directory, which it makes if there is none. It
// finds the end of the log and cuts off what a crash left behind it. It reads
// only what is not known to have been durable, usually the last segment.
//
// Damage among that is a *DamageError, unless Options.Salvage is set.
func Open(dir string, o Options) (*Journal, error) {
	j := &Journal{
		disk: disk{dir: dir, quarantine: o.Quarantine, fs: o.FS, segSize: o.SegmentSize, reserve: o.Reserve, giveUp: o.GiveUp},
		log:  o.Logger, bytes: o.Bytes, reads: o.ReadOnly, begin: o.Begin, seq: 1,
	}
	if j.disk.fs == nil {
		j.disk.fs = vfs.OS
	}
	if j.log == nil {
		j.log = slog.New(slog.DiscardHandler)
	}
	j.damages.logger, j.salvage = j.log, o.Salvage
	if j.disk.reserve == nil {
		j.disk.reserve = func() int64 { return 0 }
	}
	if j.disk.segSize <= 0 {
		j.disk.segSize = DefaultSegmentSize
	}
	j.disk.segSize = (j.disk.segSize + blockSize - 1) &^ (blockSize - 1)
	j.sync.done.L = &j.sync.mu
	j.behind = syncBehind
	if err := (opening{j}).open(); err != nil {
		for _, s := range j.segments() {
			_ = s.f.Close() // nothing was written through it that matters
		}
		return nil, fmt.Errorf("open journal %s: %w", dir, err)
	}
	return j, nil
}

// An opening is what Open does with a journal that is not yet shared with other goroutines: it
// finds the end of the log, and makes the journal ready to append there.
type opening struct{ *Journal }

func (o opening) open() error {
	if !o.reads {
		if err := o.disk.fs.MkdirAll(o.disk.dir, 0o700); err != nil {
			return err
		}
	}
	infos, err := o.disk.fs.ReadDir(o.disk.dir)
	if err != nil && (!o.reads || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	for _, i := range infos {
		base, ok := parseSegmentName(i.Name)
		if !ok || i.Dir {
			continue
		}
		if err := o.openSegment(base, i.Name); err != nil {
			return fmt.Errorf("segment %s: %w", i.Name, err)
		}
	}
	_, _ = rand.Read(o.id[:]) // never fails
	// The last run may not have synced all names.
	o.names.Store(1)
	if err := o.recover(); err != nil {
		return err
	}
	if err := o.atLeast(o.begin); err != nil {
		return err
	}
	if o.reads {
		o.first.Store(&errReadOnly)
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.syncFarBehind()
	return nil
}

var errReadOnly error = errs.ReadOnly

// atLeast ensures that the log does not end before a position that its owner knows.
func (o opening) atLeast(pos int64) error {
	if end := o.end.Load(); end >= pos {
		if !o.reads && end > 0 && len(o.segments()) == 0 {
			return o.restart() // otherwise the position would be lost
		}
		return nil
	}
	d := &DamageError{Pos: o.end.Load(), Reason: fmt.Sprintf("the log ends at %d, and went on to %d at least", o.end.Load(), pos)}
	segs := o.segments()
	if len(segs) > 0 {
		last := segs[len(segs)-1]
		d.Segment, d.Offset = last.name, d.Pos-last.base
	}
	if err := o.skip(d); err != nil {
		return err
	}
	if err := o.discardAll(segs, nil); err != nil {
		return err
	}
	o.cur = nil
	o.end.Store(pos)
	o.durable.Store(pos)
	if o.reads {
		return nil
	}
	return o.restart()
}

// openSegment adds a segment to the list, also one with an invalid header: recover decides what
// that means.
func (o opening) openSegment(base int64, name string) error {
	f, err := o.disk.fs.OpenFile(o.disk.path(name), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s := &segment{base: base, name: name, f: f}
	o.addSegment(s)
	if s.size, err = f.Size(); err != nil {
		return err
	}
	win := window{r: f, lenient: o.salvage}
	b, err := win.at(0, segmentHeader)
	if err != nil {
		return err
	}
	h, ok, err := decodeHeader(b)
	if err != nil {
		return err
	}
	if ok && h.base == base {
		s.hdr, s.seed, s.good = h, h.seed(), true
	}
	return nil
}

// recover finds the end of the log and makes the journal ready to append there.
func (o opening) recover() error {
	segs := o.segments()
	for i, s := range segs { // of all but the last the end is known
		if i+1 < len(segs) {
			s.end.Store(segs[i+1].base)
		}
	}
	last := len(segs) - 1
	for last >= 0 && !segs[last].good {
		last--
	}
	if last < 0 {
		return o.recoverEmpty(segs)
	}
	o.id = segs[last].hdr.id
	start := max(locate(segs, segs[last].hdr.durable), 0)
	for start > 0 && !segs[start].good {
		start--
	}
	t, err := o.scanTail(segs[start : last+1])
	if err != nil {
		return err
	}
	o.seq = t.seq
	// Segments without a header behind the end were being opened when the
	// machine stopped, unless what follows the header says otherwise.
	for _, s := range segs[last+1:] {
		if err := o.checkUnused(s); err != nil {
			return err
		}
	}
	// A segment that begins at the end holds nothing and is created again.
	keep := locate(segs, t.end-1) + 1
	if err := o.discardAll(segs[keep:], segs[:keep]); err != nil {
		return err
	}
	return o.resume(t)
}

// A tail is what scanTail found out.
type tail struct {
	end     int64  // position after the last record
	seq     uint64 // of the next record
	durable int64  // the highest claim seen
	marked  bool   // the last record is a mark
}

// scanTail reads the part of the log that may have a gap.
func (o opening) scanTail(segs []*segment) (tail, error) {
	final := segs[len(segs)-1]
	sc := o.newScanner(segs, segs[0].base, final.base+final.size, o.salvage)
	t := tail{end: segs[0].base, seq: segs[0].hdr.firstSeq, durable: final.hdr.durable}
	if !segs[0].good {
		t.seq = final.hdr.firstSeq // numbers need only grow
	}
	note := func(r *record) {
		t = tail{end: r.end(), seq: r.seq + 1, durable: max(t.durable, r.durable), marked: r.typ == typeMark}
	}
	for {
		r, h := sc.next()
		if r != nil {
			note(r)
			continue
		}
		if h == nil {
			return t, nil
		}
		if h.err != nil && h.rec == nil && !o.salvage && h.pos >= o.begin {
			// A read error does not prove that the log ends here.
			return t, h.damage()
		}
		// This gap is the end of the log, unless a record behind it or the owner knows that the
		// missing part was durable. Then it is damage.
		if (h.err == nil || h.rec == nil) && max(t.durable, claimBehind(sc, h), o.begin) <= h.pos {
			return t, nil
		}
		if h.rec != nil {
			o.note(h.damage())
			sc.accept(h.rec)
			note(h.rec)
			continue
		}
		if !o.salvage && h.pos >= o.begin {
			return t, h.damage()
		}
		// Before begin nothing is replayed; reading there is a DamageError.
		o.note(h.damage())
		sc.resync(h)
	}
}

// claimBehind returns the highest position that a record behind a hole states to
// be durable.
func claimBehind(sc *scanner, h *hole) (claim int64) {
	probe := *sc
	probe.win = window{r: sc.win.r, lenient: sc.win.lenient}
	for more := probe.resync(h); more; {
		r, next := probe.next()
		switch {
		case r != nil:
			claim = max(claim, r.durable)
		case next != nil:
			more = probe.resync(next)
		default:
			more = false
		}
	}
	return claim
}

// recoverEmpty begins a log without any valid segment header: a new log, or one whose first
// segment did not reach the disk. It is damage if the owner knows a position, because a segment is
// removed only when the next one is on disk.
func (o opening) recoverEmpty(segs []*segment) error {
	found := len(o.Damage())
	for _, s := range segs {
		if err := o.checkUnused(s); err != nil {
			return err
		}
	}
	if len(segs) > 0 && o.begin > 0 && len(o.Damage()) == found {
		d := (&hole{seg: segs[0], pos: segs[0].base, reason: noSegmentHeader}).damage()
		if err := o.skip(d); err != nil {
			return err
		}
	}
	if len(segs) > 0 {
		o.end.Store(segs[0].base)
		o.durable.Store(segs[0].base)
	}
	return o.discardAll(segs, nil)
}

// checkUnused is a DamageError if a segment without a readable header was in use.
func (o opening) checkUnused(s *segment) error {
	win := window{r: s.f, lenient: o.salvage}
	b, err := win.at(segmentHeader, recordHeader)
	if err != nil {
		return fmt.Errorf("segment %s: %w", s.name, err)
	}
	if _, ok := peekRecordHead(b, s.base+segmentHeader); !ok {
		return nil
	}
	return o.skip((&hole{seg: s, pos: s.base, reason: noSegmentHeader}).damage())
}

// discardAll removes segments behind the end, for good.
func (o opening) discardAll(gone, kept []*segment) error {
	o.set(kept)
	var err error
	for _, s := range gone {
		err = errors.Join(err, s.f.Close())
		if !o.reads {
			err = errors.Join(err, o.disk.fs.Remove(o.disk.path(s.name)))
		}
	}
	if err == nil && len(gone) > 0 && !o.reads {
		// This comes before the first append: otherwise the segments could reappear in the middle
		// of the log.
		err = o.disk.fs.SyncDir(o.disk.dir)
	}
	return err
}

// resume makes the last segment the current one and erases what follows the end: valid records
// behind a gap must not be found again once the gap is filled.
func (o opening) resume(t tail) error {
	o.end.Store(t.end)
	o.durable.Store(min(t.durable, t.end))
	segs := o.segments()
	if len(segs) == 0 || !segs[len(segs)-1].good {
		return nil // the first Append opens a segment
	}
	s := segs[len(segs)-1]
	s.end.Store(t.end)
	if o.reads {
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
	o.cur, o.off, o.marked = s, off, t.marked
	if err := o.disk.extend(s); err != nil {
		return err
	}
	if erase {
		return o.syncAll()
	}
	return nil
}
