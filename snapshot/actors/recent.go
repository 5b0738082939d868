package actors

import "slices"

// RecentSets has the actor sets of the present interval, since the newest snapshot, and of the interval before it.
type RecentSets struct {
	present      []*Set
	isLastFrozen bool   // the last set of present must not be changed
	previous     []*Set // sets of the previous interval
}

// Add records that an actor changed an inode.
func (r *RecentSets) Add(ino uint64, actor string) { r.OpenSet().Add(ino, actor) }

// OpenSet returns the set to which changes are added. If the last set is frozen, it adds a new one.
func (r *RecentSets) OpenSet() *Set {
	if r.isLastFrozen || len(r.present) == 0 {
		r.present, r.isLastFrozen = append(slices.Clip(r.present), &Set{}), false
	}
	return r.present[len(r.present)-1]
}

// Freeze returns the sets of the present interval. Later changes go into a new set.
func (r *RecentSets) Freeze() []*Set {
	r.isLastFrozen = true
	return r.present
}

// EndInterval returns the frozen sets of the present interval, and begins a new interval.
func (r *RecentSets) EndInterval() []*Set {
	sets := r.Freeze()
	r.previous, r.present, r.isLastFrozen = sets, nil, false
	return sets
}

// Append adds the sets of o, whose changes are newer than the changes of r.
func (r *RecentSets) Append(o *RecentSets) {
	r.present, r.isLastFrozen = append(slices.Clip(r.present), o.present...), true
}

// AddOlderSets adds older sets to the present interval. It is called when the snapshot between the previous
// interval and the present one is removed, with the sets of the previous interval.
func (r *RecentSets) AddOlderSets(sets []*Set) {
	if len(sets) == 0 {
		return
	}
	r.isLastFrozen = r.isLastFrozen || len(r.present) == 0
	r.present = append(slices.Clip(sets), r.present...)
}

// Join replaces the sets that Freeze returned earlier by one joined set. If joined is nil, it removes them. If they
// are no longer the first sets of the interval, Join returns false and changes nothing.
func (r *RecentSets) Join(sets []*Set, joined *Set) bool {
	if len(sets) == 0 || len(r.present) < len(sets) || !slices.Equal(r.present[:len(sets)], sets) {
		return false
	}
	rest := r.present[len(sets):]
	r.present = nil
	if joined != nil {
		r.present = append(r.present, joined)
	}

	r.present = append(r.present, rest...)
	r.isLastFrozen = r.isLastFrozen || len(rest) == 0

	return true
}

// ActorsOf returns the actors that changed an inode in the present interval.
func (r *RecentSets) ActorsOf(ino uint64) (actors []string) {
	for _, s := range r.present {
		actors = append(actors, s.ActorsOf(ino)...)
	}
	return actors
}

// ChangedByOthers reports whether an actor other than the given one changed an inode.
func (r *RecentSets) ChangedByOthers(ino uint64, actor string) bool {
	return slices.ContainsFunc(r.present, func(s *Set) bool { return s.ChangedByOthers(ino, actor) })
}

// OnlyBy reports whether no actor other than the given one changed any inode.
func (r *RecentSets) OnlyBy(actor string) bool {
	return !slices.ContainsFunc(r.present, func(s *Set) bool { return !s.OnlyBy(actor) })
}

// LastWriter returns the actor that changed an inode in the newest set with this inode, of this interval or the
// previous one. It skips sets in which several actors changed the inode. If no set remains, it returns Unknown.
func (r *RecentSets) LastWriter(ino uint64) string {
	for _, sets := range [][]*Set{r.present, r.previous} {
		for _, s := range slices.Backward(sets) {
			if actors := s.ActorsOf(ino); len(actors) == 1 {
				return actors[0]
			}
		}
	}
	return Unknown
}

// Names returns the actors of the present interval, sorted.
func (r *RecentSets) Names() []string {
	var out []string
	for _, s := range r.present {
		out = append(out, s.Actors()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
