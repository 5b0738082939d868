package threeway

import "path"

// A conflictList has the paths in conflict, and the version that each of them gets.
type conflictList struct {
	Conflicts []string // paths

	rule    func(path string) Rule
	skip    map[string]bool // see Plan.Skip
	refused map[string]bool // the paths of Conflicts
	ours    map[string]bool // paths of Conflicts that keep the version of ours
	whole   map[string]bool // paths of Conflicts that are a directory on one side only
}

// stays reports whether a path keeps the version of ours: because of Skip, or because it is in conflict and the
// rule keeps ours. If a path in conflict is a directory in ours but not in theirs, the paths below it keep the
// version of ours, too.
func (l *conflictList) stays(at string) bool {
	for dir := path.Dir(at); len(l.whole) > 0 && dir != "."; dir = path.Dir(dir) {
		if l.ours[dir] && l.whole[dir] {
			return true
		}
	}
	return l.ours[at] || Under(at, l.skip) != ""
}

// conflict adds a path to Conflicts. If the rule takes theirs, it calls theirs, which plans the version of
// theirs. theirs may be nil.
func (l *conflictList) conflict(at string, theirs func() error) error {
	if l.stays(at) {
		return nil
	}

	if !l.refused[at] {
		l.refused[at] = true
		l.Conflicts = append(l.Conflicts, at)
	}
	if theirs != nil && l.rule(at) == TakeTheirs {
		return theirs()
	}

	return nil
}
