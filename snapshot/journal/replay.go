package journal

import (
	"fmt"
	"hash/crc32"
)

func crc(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Replay calls fn for every record from start, a position that End returned, in the order of
// appending, up to the end at the time of the call. recPos is the position of the record,
// payloadPos the position of its payload. fn must not use the payload after it returns. An error of fn ends
// the replay, and Replay returns it unchanged.
//
// The error is a *DamageError if a part of the log cannot be read; with Options.Salvage the part
// is skipped. Damaged records that Options.KeepDamaged accepts are passed to fn. The error is
// ErrPosition if start is not in the journal.
func (j *Journal) Replay(start int64, fn func(t Type, recPos int64, payload []byte, payloadPos int64) error) error {
	j.dropMu.Lock()
	defer j.dropMu.Unlock()

	end, segs := j.end.Load(), j.segments()
	if j.salvage && len(segs) > 0 && start < segs[0].base {
		_ = j.skipDamage(&DamageError{Pos: start, Reason: fmt.Sprintf("the log begins at %d, and %d is needed", segs[0].base, start)})
		start = segs[0].base
	}
	if start == end && len(segs) == 0 {
		return nil
	}

	first := segmentIndex(segs, start)
	if first < 0 || start > end || start > segs[first].base && start < segs[first].base+segmentHeaderSize {
		return fmt.Errorf("%w: replay from %d, it holds %d bytes up to %d", ErrPosition, start, j.Size(), end)
	}
	if segs = segmentsBefore(segs[first:], end); len(segs) == 0 {
		return nil
	}

	sc := j.newScanner(segs, start, end, j.salvage)

	for {
		r, h := sc.next()
		if h != nil && h.keptRecord != nil {
			j.addDamage(h.damage())
			sc.moveAfter(h.keptRecord)
			r, h = h.keptRecord, nil
		}

		if h != nil {
			if err := j.skipDamage(h.damage()); err != nil {
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
		if err := fn(r.typ, r.pos, r.payload, r.pos+recordHeaderSize); err != nil {
			return err
		}
	}
}

// segmentsBefore returns the segments that begin before end.
func segmentsBefore(segs []*segment, end int64) []*segment { return segs[:segmentIndex(segs, end-1)+1] }

// Verify reads the whole log and calls fn for every damaged place. d.Pos is the position of the place, and
// end the position of the next valid record.
func (j *Journal) Verify(fn func(d *DamageError, end int64)) error {
	j.dropMu.Lock()
	defer j.dropMu.Unlock()

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
