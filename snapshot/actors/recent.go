package actors

import "slices"

// Recent has the actor sets of the present interval, since the newest snapshot, and of the interval
// before it.
type Recent struct {
	sets   []*Set
	frozen bool   // the last set of sets must not be changed
	last   []*Set // sets of the previous interval
}

// Add records that an actor changed an inode.
func (r *Recent) Add(ino uint64, actor string) { r.Growing().Add(ino, actor) }

// Growing returns the set to which changes are added. It makes a new one if the last is frozen.
func (r *Recent) Growing() *Set {
	if r.frozen || len(r.sets) == 0 {
		r.sets, r.frozen = append(slices.Clip(r.sets), &Set{}), false
	}
	return r.sets[len(r.sets)-1]
}

// Freeze returns the sets of the present interval. Later changes go into a new set.
func (r *Recent) Freeze() []*Set {
	r.frozen = true
	return r.sets
}

// Next returns the frozen sets of the present interval, and begins a new interval.
func (r *Recent) Next() []*Set {
	sets := r.Freeze()
	r.last, r.sets, r.frozen = sets, nil, false
	return sets
}

// Append adds the sets of o, whose changes are newer than the changes of r.
func (r *Recent) Append(o *Recent) { r.sets, r.frozen = append(slices.Clip(r.sets), o.sets...), true }

// Return adds older sets to the present interval: those of the previous interval, if the snapshot between the previous
// interval and the present one was removed.
func (r *Recent) Return(sets []*Set) {
	if len(sets) == 0 {
		return
	}
	r.frozen = r.frozen || len(r.sets) == 0
	r.sets = append(slices.Clip(sets), r.sets...)
}

// Join replaces sets, an earlier result of Freeze, by the set with, or removes them if with is nil. If sets are
// no longer the first sets of the interval, it returns false and changes nothing.
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

// Of returns the actors that changed an inode in the present interval.
func (r *Recent) Of(ino uint64) (by []string) {
	for _, s := range r.sets {
		by = append(by, s.Of(ino)...)
	}
	return by
}

// Others reports whether an actor other than by changed an inode.
func (r *Recent) Others(ino uint64, by string) bool {
	return slices.ContainsFunc(r.sets, func(s *Set) bool { return s.Others(ino, by) })
}

// OnlyBy reports whether no actor other than by changed any inode.
func (r *Recent) OnlyBy(by string) bool {
	return !slices.ContainsFunc(r.sets, func(s *Set) bool { return !s.OnlyBy(by) })
}

// LastWriter returns the actor of the newest set with an inode, in this interval or the previous one. It skips
// sets in which several actors changed the inode. Without a set it returns Unknown.
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

// Names returns the actors of the present interval, sorted.
func (r *Recent) Names() []string {
	var out []string
	for _, s := range r.sets {
		out = append(out, s.Actors()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
