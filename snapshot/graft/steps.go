// Package graft makes one tree like another, or brings one into another: it lists the steps,
// and a Target makes them in a state, for restores, merges, undos and imports. It also finds
// which actors changed each path between two trees. It knows states alone: no views, no lock
// and no journal. Whoever has these says so by the functions of a Target.
package graft

import (
	"context"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// cost is the memory of a step until it is made and answered, in bytes, beside its path:
// in the list and in the edited tree.
const cost = 300

// Between are the steps from state a to state b, charged to list.
func Between(ctx context.Context, src *tree.Source, a, b *tree.State, o tree.DiffOptions, list *budget.Charge) (all []Step, err error) {
	o.SkipData = true // a step puts the whole file in place
	err = tree.Diff(ctx, src, a, b, o, func(c tree.Change) error {
		all = append(all, StepOf(c))
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		return list.Try(cost)
	})
	return all, err
}

// MissingParents are steps that create the directories above p that are missing in now,
// as they are in then. There are none if then has nothing at p. seen has the directories
// that were listed before.
func MissingParents(src *tree.Source, now, then *tree.State, p *tree.Path, seen map[string]bool) (missing []Step, err error) {
	if _, err := then.Resolve(src, p.String()); err != nil {
		return nil, nil
	}
	for dir := p.Dir; dir != nil && !seen[dir.String()]; dir = dir.Dir {
		a, err := now.Resolve(src, dir.String())
		if err == nil && a.IsDir() {
			break
		}
		b, err := then.Resolve(src, dir.String())
		if err != nil {
			return nil, err
		}
		seen[dir.String()] = true
		missing = append(missing, StepOf(tree.Change{Path: dir, Before: a, After: b, What: tree.Added}))
	}
	slices.Reverse(missing) // from the top down
	return missing, nil
}

// Without are the steps that leave the kept paths, and everything below them, as they
// are. kept are those paths of keep to which a step was dropped. A directory above a kept
// path stays a directory; the caller makes the steps so that full directories stay.
func Without(all []Step, keep []string) (left []Step, kept []string) {
	dropped := make(map[string]bool)
	left = slices.DeleteFunc(all, func(s Step) bool {
		p := s.Path.String()
		for _, k := range keep {
			if naming.Under(p, k) {
				dropped[k] = true
				return true
			}
			if s.WasDir && s.After != 0 && !s.IsDir && strings.HasPrefix(k, p+"/") {
				return true // a file in place of the directory
			}
		}
		return false
	})
	return left, slices.Sorted(maps.Keys(dropped))
}

// Trivial reports whether a step follows from others: the mtime of a directory whose
// entries changed.
func Trivial(c *Step) bool {
	return c.WasDir && c.IsDir && c.What&^(tree.Mtime|tree.Links) == 0
}

// A PathChange is a path that a restore, an import or a merge changed.
type PathChange struct {
	Path   string `json:"path"`
	Raw    string `json:"raw,omitempty"` // of Path, see naming.Raw
	Action string `json:"action"`        // created, modified, deleted
}

// PathChangeOf is a step as users see it.
func PathChangeOf(s Step) PathChange {
	p := PathChange{Path: s.Path.Short(), Action: "modified"}
	switch {
	case s.Before == 0:
		p.Action = "created"
	case s.After == 0:
		p.Action = "deleted"
	}
	if p.Raw = naming.Raw(p.Path); p.Path == "" {
		p.Path = "."
	}
	return p
}

// maxListed is how many bytes the paths have that a result names.
const maxListed = 1 << 20

// Listed counts the steps that users see, and names as many as a result may.
func Listed(all []Step) (n int, out []PathChange, more bool) {
	room := maxListed
	for i := range all {
		s := &all[i]
		if Trivial(s) {
			continue
		}
		if n++; !more {
			room -= min(s.Path.Len(), unix.PathMax)
			more = room < 0
		}
		if !more {
			out = append(out, PathChangeOf(*s))
		}
	}
	return n, out, more
}
