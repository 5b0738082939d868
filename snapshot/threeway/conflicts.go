package threeway

import (
	"path"

	"github.com/amberfs/amberfs/snapshot/naming"
)

// A conflictList has the paths in conflict, and the version that each of them gets.
type conflictList struct {
	Conflicts []string // paths

	rule         func(path string) Rule
	skip         map[string]bool // see Plan.SkipPaths
	inConflict   map[string]bool // the paths of Conflicts
	keptOurs     map[string]bool // paths of Conflicts that keep the version of ours
	dirOnOneSide map[string]bool // paths of Conflicts that are a directory on one side only
}

// keepsOurs reports whether a path keeps the version of ours: because of Plan.SkipPaths, or because it is in
// conflict and the rule keeps ours. If a path in conflict is a directory in ours but not in theirs, the paths
// below it keep the version of ours, too.
func (l *conflictList) keepsOurs(filePath string) bool {
	for dir := path.Dir(filePath); len(l.dirOnOneSide) > 0 && dir != "."; dir = path.Dir(dir) {
		if l.keptOurs[dir] && l.dirOnOneSide[dir] {
			return true
		}
	}
	return l.keptOurs[filePath] || naming.NearestIn(filePath, l.skip) != ""
}

// addConflict adds a path to Conflicts. If the rule takes the version of theirs, it calls the function theirs, which
// plans this version, unless the function is nil.
func (l *conflictList) addConflict(filePath string, theirs func() error) error {
	if l.keepsOurs(filePath) {
		return nil
	}

	if !l.inConflict[filePath] {
		l.inConflict[filePath] = true
		l.Conflicts = append(l.Conflicts, filePath)
	}
	if theirs != nil && l.rule(filePath) == TakeTheirs {
		return theirs()
	}

	return nil
}
