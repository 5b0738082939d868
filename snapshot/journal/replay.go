package journal

import (
	"fmt"
	"hash/crc32"
)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Replay calls fn for every record from a position that End returned, in the
// order of appending, up to what is the end when it is called. recPos is where
// the record begins and payloadPos where its payload does; the payload may be
// kept no longer than the call. An error of fn ends the replay and is returned
// as it is.
//
// A place that cannot be read is a *DamageError; with Options.Salvage it is
// skipped. A position that is not in the journal any more, or not yet, is
// ErrPosition.
func (j *Journal) Replay(from int64, fn func(t Type, recPos int64, payload []byte, payloadPos int64) error) error {
	end := j.end.Load()
	if segs := j.segments(); j.salvage && len(segs) > 0 && from < segs[0].base {
		_ = j.skip(&DamageError{Pos: from, Reason: fmt.Sprintf("the log begins at %d, and %d is needed", segs[0].base, from)})
		from = segs[0].base
	}
	segs, err := j.hold(from, end)
	if err != nil {
		return err
	}
	defer drop(segs)
	if len(segs) == 0 {
		return nil
	}
	sc := newScanner(segs, from, end, j.salvage)
	for {
		r, h := sc.next()
		if h != nil {
			if err := j.skip(h.damage()); err != nil {
				return err
			}
			sc.resync(h)
			continue
		}
		if r == nil {
			return nil
		}
		if r.typ == typeMark {
			continue
		}
		if err := fn(r.typ, r.pos, r.payload, r.pos+recordHeader); err != nil {
			return err
		}
	}
}

// hold returns the segments of [from, end), each with a reference for the caller.
func (j *Journal) hold(from, end int64) ([]*segment, error) {
	all := j.segments()
	first := locate(all, from)
	if first < 0 || from > end || (from > all[first].base && from < all[first].base+segmentHeader) {
		if from == end && len(all) == 0 {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: replay from %d, it holds %d bytes up to %d", ErrPosition, from, j.Size(), end)
	}
	held := make([]*segment, 0, len(all)-first)
	for _, s := range all[first:] {
		if s.base >= end {
			break
		}
		if !s.acquire() {
			drop(held)
			return nil, fmt.Errorf("%w: replay from %d, which was dropped meanwhile", ErrPosition, from)
		}
		held = append(held, s)
	}
	return held, nil
}

// Verify reads all of the log and calls fn for every place that cannot be read:
// the error, whose Pos is where it begins, and the position at which the next
// good record does.
func (j *Journal) Verify(fn func(d *DamageError, end int64)) error {
	segs, end := j.holdAll()
	if len(segs) == 0 {
		return nil
	}
	defer drop(segs)
	sc := newScanner(segs, segs[0].base, end, false)
	for {
		r, h := sc.next()
		if h == nil && r == nil {
			return nil
		}
		if h != nil {
			sc.resync(h)
			fn(h.damage(), sc.pos)
		}
	}
}

// holdAll returns all segments that have records, each with a reference for the
// caller, and the end of the last.
func (j *Journal) holdAll() (segs []*segment, end int64) {
	for {
		end = j.end.Load()
		segs = j.segments()
		if len(segs) == 0 || segs[0].base >= end {
			return nil, end
		}
		if held, err := j.hold(segs[0].base, end); err == nil {
			return held, end
		}
		// The first one was dropped meanwhile.
	}
}

func drop(segs []*segment) {
	for _, s := range segs {
		_ = s.release() // only read from: closing it loses nothing
	}
}
