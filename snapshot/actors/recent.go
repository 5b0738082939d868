package actors

import "slices"

// Recent has the actors of the changes since the newest snapshot, and those of the interval
// before it.
type Recent struct {
	sets   []*Set
	frozen bool   // the last set does not grow any more
	last   []*Set // those of the interval before
}

// Add notes that an actor changed an inode.
func (r *Recent) Add(ino uint64, actor string) { r.Growing().Add(ino, actor) }

// Growing returns the set that changes are added to.
func (r *Recent) Growing() *Set {
	if r.frozen || len(r.sets) == 0 {
		r.sets, r.frozen = append(slices.Clip(r.sets), &Set{}), false
	}
	return r.sets[len(r.sets)-1]
}

// Freeze returns the sets, which do not change from then on.
func (r *Recent) Freeze() []*Set {
	r.frozen = true
	return r.sets
}

// Next is Freeze, and begins another interval.
func (r *Recent) Next() []*Set {
	sets := r.Freeze()
	r.last, r.sets, r.frozen = sets, nil, false
	return sets
}

// Append adds the changes of another one, which come later.
func (r *Recent) Append(o *Recent) { r.sets, r.frozen = append(slices.Clip(r.sets), o.sets...), true }

// Return adds sets of the interval before, whose snapshot was removed.
func (r *Recent) Return(sets []*Set) {
	if len(sets) > 0 {
		r.frozen = r.frozen || len(r.sets) == 0
		r.sets = append(slices.Clip(sets), r.sets...)
	}
}

// Join puts one set in the place of the first that Freeze returned, if they are still those
// of the interval; none if with is nil.
func (r *Recent) Join(sets []*Set, with *Set) bool {
	if len(sets) == 0 || len(r.sets) < len(sets) || !slices.Equal(r.sets[:len(sets)], sets) {
		return false
	}
	rest := r.sets[len(sets):]
	r.sets = nil
	if with != nil {
		r.sets = append(r.sets, with)
	}
	r.sets = append(r.sets, rest...)
	r.frozen = r.frozen || len(rest) == 0
	return true
}

// Of returns the actors that changed an inode in this interval.
func (r *Recent) Of(ino uint64) (by []string) {
	for _, s := range r.sets {
		by = append(by, s.Of(ino)...)
	}
	return by
}

// Others reports whether an inode was changed by another actor.
func (r *Recent) Others(ino uint64, by string) bool {
	return slices.ContainsFunc(r.sets, func(s *Set) bool { return s.Others(ino, by) })
}

// OnlyBy reports whether there are no changes by another actor.
func (r *Recent) OnlyBy(by string) bool {
	return !slices.ContainsFunc(r.sets, func(s *Set) bool { return !s.OnlyBy(by) })
}

// LastWriter returns the one actor that changed an inode in this interval or the one before.
func (r *Recent) LastWriter(ino uint64) string {
	for _, sets := range [][]*Set{r.sets, r.last} {
		for _, s := range slices.Backward(sets) {
			if by := s.Of(ino); len(by) == 1 {
				return by[0]
			}
		}
	}
	return Unknown
}

// Names are the actors, in order.
func (r *Recent) Names() []string {
	var out []string
	for _, s := range r.sets {
		out = append(out, s.Actors()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
