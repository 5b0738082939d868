package threeway

import (
	"errors"
	"fmt"
	"strings"
)

// A Rule is what becomes of a path that changed on both sides.
type Rule int

const (
	RefuseConflicts Rule = iota // nothing is touched
	KeepOurs                    // the workspace's version stays
	TakeTheirs                  // the other version wins
)

// ErrConflict is wrapped by the error of a merge that was refused.
var ErrConflict = errors.New("changed on both sides")

// Refused is an ErrConflict if a path in conflict is to be refused.
func (p *Plan) Refused() error {
	for _, at := range p.Conflicts {
		if p.Rule(at) == RefuseConflicts {
			return fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, some(p.Conflicts))
		}
	}
	return nil
}

// some names a few of many paths.
func some(paths []string) string {
	const few = 20
	if len(paths) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:few], ", "), len(paths)-few)
	}
	return strings.Join(paths, ", ")
}
