package journal

import "fmt"

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
	// A segment that begins at the end holds nothing and is made anew.
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
	sc := newScanner(segs, segs[0].base, final.base+final.size, o.salvage)
	t := tail{end: segs[0].base, seq: segs[0].hdr.firstSeq, durable: final.hdr.durable}
	if !segs[0].good {
		t.seq = final.hdr.firstSeq // numbers need only grow
	}
	for {
		r, h := sc.next()
		if r != nil {
			t = tail{end: r.end(), seq: r.seq + 1, durable: max(t.durable, r.durable), marked: r.typ == typeMark}
			continue
		}
		if h == nil {
			return t, nil
		}
		if h.err != nil && !o.salvage && h.pos >= o.begin {
			// A disk that cannot be read is no reason to cut.
			return t, h.damage()
		}
		// A gap. It is the end, unless a record behind it or the owner knows that
		// what is missing was durable: then nothing but damage can have taken it.
		if max(t.durable, claimBehind(sc, h), o.begin) <= h.pos {
			return t, nil
		}
		if !o.salvage && h.pos >= o.begin {
			return t, h.damage()
		}
		// Before begin nothing is replayed; reading there tells.
		o.skipped(h.damage())
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

// recoverEmpty begins a log of which no segment has a header: a new one, or one
// whose first segment did not reach the disk. That cannot be once its owner knows
// of a position: a segment goes only when the next one is on disk.
func (o opening) recoverEmpty(segs []*segment) error {
	known := false
	for _, s := range segs {
		n := len(o.Damage())
		if err := o.checkUnused(s); err != nil {
			return err
		}
		known = known || len(o.Damage()) > n
	}
	if len(segs) > 0 && o.begin > 0 && !known {
		d := (&hole{seg: segs[0], pos: segs[0].base, reason: noSegmentHeader}).damage()
		if !o.salvage {
			return d
		}
		o.skipped(d)
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
	d := (&hole{seg: s, pos: s.base, reason: noSegmentHeader}).damage()
	if !o.salvage {
		return d
	}
	o.skipped(d)
	return nil
}

// discardAll removes segments behind the end, for good. A salvage only sets them
// aside: someone may want to look at them.
func (o opening) discardAll(gone, kept []*segment) error {
	list := append([]*segment(nil), kept...)
	o.list.Store(&list)
	var first error
	for _, s := range gone {
		err := s.release()
		if o.reads {
			continue
		}
		rerr := error(nil)
		if o.salvage {
			rerr = o.disk.fs.Rename(o.disk.path(s.name), o.disk.path(s.name+damagedSuffix))
		} else {
			rerr = o.disk.fs.Remove(o.disk.path(s.name))
		}
		if err == nil {
			err = rerr
		}
		if err != nil && first == nil {
			first = fmt.Errorf("remove segment %s: %w", s.name, err)
		}
	}
	if first == nil && len(gone) > 0 && !o.reads {
		// Before something is appended: otherwise they could come back in the
		// middle of the log.
		first = o.disk.fs.SyncDir(o.disk.dir)
	}
	return first
}

// resume makes the last segment the current one and erases what follows the end:
// records there, valid but behind a gap, must not be met again once the gap is
// filled.
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
