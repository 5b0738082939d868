package threeway

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/amberfs/amberfs/snapshot/steps"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Rule is what becomes of a path that changed on both sides.
type Rule int

// The rules.
const (
	RefuseConflicts Rule = iota // nothing is touched
	KeepOurs                    // the workspace's version stays
	TakeTheirs                  // the fork's version wins
)

// ErrConflict is wrapped by the error of a merge that was refused.
var ErrConflict = errors.New("changed on both sides")

// Settle finds the steps: it runs the merge, merges texts, and applies the rules to what is
// in conflict then. After an ErrConflict, Conflicts has all of them.
func (m *Merge) Settle(ctx context.Context, merge Merger, rule func(path string) Rule) error {
	if err := m.Run(ctx, nil); err != nil {
		return err
	}
	if len(m.Conflicts) > 0 && merge != nil {
		if err := m.Texts(ctx, merge); err != nil {
			return err
		}
		if err := m.Run(ctx, nil); err != nil {
			return err
		}
	}
	conflicts, kept := m.Conflicts, make(map[string]bool)
	for _, path := range conflicts {
		switch rule(path) {
		case RefuseConflicts:
			return fmt.Errorf("%w: %s; decide with --ours or --theirs, or make them equal first", ErrConflict, some(conflicts))
		case KeepOurs:
			kept[path] = true
		}
	}
	if len(kept) > 0 {
		if err := m.Run(ctx, kept); err != nil {
			return err
		}
		m.Conflicts = conflicts
	}
	return nil
}

// Allow asks may for what a merge changes, and for its conflicts.
func (m *Merge) Allow(may steps.May) error {
	if may == nil {
		return nil
	}
	for _, c := range m.Conflicts {
		p, err := tree.ParsePath(c)
		if err == nil {
			err = may(p, m.Ours, m.Theirs)
		}
		if err != nil {
			return err
		}
	}
	return may.Allow(m.Steps, m.Ours, m.Theirs)
}

// some names a few of many paths.
func some(paths []string) string {
	const few = 20
	if len(paths) > few {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:few], ", "), len(paths)-few)
	}
	return strings.Join(paths, ", ")
}
