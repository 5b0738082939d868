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
		j.skipped(&DamageError{Pos: from, Reason: fmt.Sprintf("the log begins at %d, and %d is needed", segs[0].base, from)})
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
			if !j.salvage {
				return h.damage()
			}
			j.skipped(h.damage())
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
		return nil, fmt.Errorf("%w: replay from %d, it holds %d to %d", ErrPosition, from, firstBase(all, end), end)
	}
	held := make([]*segment, 0, len(all)-first)
	for _, s := range all[first:] {
		if s.base >= end {
			break
		}
		if !s.acquire() {
			for _, h := range held {
				_ = h.release() // only read from
			}
			return nil, fmt.Errorf("%w: replay from %d, which was dropped meanwhile", ErrPosition, from)
		}
		held = append(held, s)
	}
	return held, nil
}

func firstBase(segs []*segment, end int64) int64 {
	if len(segs) == 0 {
		return end
	}
	return segs[0].base
}
