package threeway

import "path"

// A conflictList has the paths in conflict, and how they are decided.
type conflictList struct {
	Conflicts []string // paths

	rule    func(path string) Rule
	skip    map[string]bool // see Plan.Skip
	refused map[string]bool // the paths of Conflicts
	ours    map[string]bool // paths of Conflicts that stay as they are
	whole   map[string]bool // paths of Conflicts that are a directory on one side only
}

// stays reports whether a path stays as it is in ours: by Skip, or because it is in conflict and the
// rule keeps ours. If the conflict is a directory of ours that is no directory in theirs, the paths
// below it stay, too.
func (l *conflictList) stays(at string) bool {
	for dir := path.Dir(at); len(l.whole) > 0 && dir != "."; dir = path.Dir(dir) {
		if l.ours[dir] && l.whole[dir] {
			return true
		}
	}
	return l.ours[at] || Under(at, l.skip) != ""
}

// conflict adds a path to Conflicts. If the rule takes theirs, it calls theirs, which plans the
// version of theirs and is nil if there is nothing to plan.
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
