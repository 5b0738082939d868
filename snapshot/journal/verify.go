package journal

import (
	"errors"
	"io/fs"
	"slices"
)

// Verify reads all of the log and calls fn for every place that cannot be read:
// the error, whose Pos is where it begins, and the position at which the next
// good record does.
func (j *Journal) Verify(fn func(d *DamageError, end int64)) error {
	segs, end := j.holdAll()
	if len(segs) == 0 {
		return nil
	}
	defer drop(segs)
	for i, s := range segs {
		if !j.lost(s) {
			continue
		}
		// It can be read as long as it is open, and is gone then.
		stop := end
		if i+1 < len(segs) {
			stop = segs[i+1].base
		}
		fn((&hole{seg: s, pos: s.base, reason: "the segment's file is missing"}).damage(), stop)
	}
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

// lost reports whether the file of a segment is gone, though the segment was not
// dropped.
func (j *Journal) lost(s *segment) bool {
	_, err := j.disk.fs.Stat(j.disk.path(s.name))
	return errors.Is(err, fs.ErrNotExist) && slices.Contains(j.segments(), s)
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

// sound reports that Verify finds nothing, and nothing was skipped.
func (j *Journal) sound() bool {
	sound := len(j.Damage()) == 0
	err := j.Verify(func(*DamageError, int64) { sound = false })
	return sound && err == nil
}

func drop(segs []*segment) {
	for _, s := range segs {
		_ = s.release() // only read from: closing it loses nothing
	}
}
