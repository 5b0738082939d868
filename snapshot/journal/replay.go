package journal

import (
	"fmt"
	"hash/crc32"
)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Replay calls fn for every record from a position that End returned, in the order of
// appending, up to the end at the time of the call. recPos is the position of the record,
// payloadPos the position of its payload. fn must not use the payload after it returns. An error of fn ends
// the replay, and Replay returns it unchanged.
//
// The error is a *DamageError if a part of the log cannot be read; with Options.Salvage the part
// is skipped. Damaged records that Options.Bytes accepts are passed to fn. The error is
// ErrPosition if from is not in the journal.
func (j *Journal) Replay(from int64, fn func(t Type, recPos int64, payload []byte, payloadPos int64) error) error {
	j.drop.Lock()
	defer j.drop.Unlock()

	end, segs := j.end.Load(), j.segments()
	if j.salvage && len(segs) > 0 && from < segs[0].base {
		_ = j.skip(&DamageError{Pos: from, Reason: fmt.Sprintf("the log begins at %d, and %d is needed", segs[0].base, from)})
		from = segs[0].base
	}
	if from == end && len(segs) == 0 {
		return nil
	}

	first := locate(segs, from)
	if first < 0 || from > end || from > segs[first].base && from < segs[first].base+segmentHeader {
		return fmt.Errorf("%w: replay from %d, it holds %d bytes up to %d", ErrPosition, from, j.Size(), end)
	}
	if segs = segmentsBefore(segs[first:], end); len(segs) == 0 {
		return nil
	}

	sc := j.newScanner(segs, from, end, j.salvage)

	for {
		r, h := sc.next()
		if h != nil && h.rec != nil {
			j.addDamage(h.damage())
			sc.accept(h.rec)
			r, h = h.rec, nil
		}

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

// segmentsBefore returns the segments that begin before end.
func segmentsBefore(segs []*segment, end int64) []*segment { return segs[:locate(segs, end-1)+1] }

// Verify reads the whole log and calls fn for every damaged place. d.Pos is the position of the place, and
// end the position of the next valid record.
func (j *Journal) Verify(fn func(d *DamageError, end int64)) error {
	j.drop.Lock()
	defer j.drop.Unlock()

	end := j.end.Load()
	segs := segmentsBefore(j.segments(), end)
	if len(segs) == 0 {
		return nil
	}

	sc := j.newScanner(segs, segs[0].base, end, false)

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
