package graft

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// listedStepMemory is the memory of a step in the list and in the edited tree, in bytes, without its path.
const listedStepMemory = 300

// StepsBetween returns the steps from state a to state b. It charges their memory to charge.
func StepsBetween(ctx context.Context, src *tree.Source, a, b *tree.State, o tree.DiffOptions, charge *budget.Charge) (all []Step, err error) {
	o.SkipData = true // a step replaces the whole file
	err = tree.Diff(ctx, src, a, b, o, func(c tree.Change) error {
		all = append(all, StepOf(c))
		if err := turns.Yield(ctx); err != nil {
			return err
		}

		return charge.TryAdd(listedStepMemory)
	})

	return all, err
}

// MissingParents returns steps that make the directories above p that are missing in the present state, with their
// attributes in the source. If p does not exist in the source, it returns no steps. haveStep has the directories
// that have a step already; MissingParents adds to it.
func MissingParents(src *tree.Source, present, source *tree.State, p *tree.Path, haveStep map[string]bool) (missing []Step, err error) {
	if _, err := source.Resolve(src, p.String()); err != nil {
		return nil, nil
	}

	for dir := p.Dir; dir != nil && !haveStep[dir.String()]; dir = dir.Dir {
		a, err := present.Resolve(src, dir.String())
		if err == nil && a.IsDir() {
			break
		}

		b, err := source.Resolve(src, dir.String())
		if err != nil {
			return nil, err
		}

		haveStep[dir.String()] = true
		missing = append(missing, StepOf(tree.Change{Path: dir, Before: a, After: b, Differences: tree.PathAdded}))
	}

	slices.Reverse(missing) // a directory comes before the directories in it
	return missing, nil
}

// DropKept removes the steps that change a path in keep, or a path below one, and the steps that would replace a directory
// above such a path by a file. kept are the paths in keep for which it removed a step. Steps that remove a directory above
// a path in keep stay: the caller must use the option KeepNonEmptyDirs, so that such a directory is not removed.
func DropKept(all []Step, keep []string) (remaining []Step, kept []string) {
	dropped := make(map[string]bool)
	remaining = slices.DeleteFunc(all, func(s Step) bool {
		p := s.Path.String()

		for _, k := range keep {
			if naming.IsUnder(p, k) {
				dropped[k] = true
				return true
			}
			if s.WasDir && s.After != 0 && !s.IsDir && naming.IsUnder(k, p) {
				return true // the step would replace a directory above k by a file
			}
		}

		return false
	})

	return remaining, slices.Sorted(maps.Keys(dropped))
}

// IsTrivial reports whether a step only changes the mtime or link count of a directory, which is a
// result of other steps.
func IsTrivial(c *Step) bool {
	return c.WasDir && c.IsDir && c.Differences&^(tree.MtimeDiffers|tree.LinksDiffer) == 0
}

// A PathChange is a path that a restore, an import or a merge changed.
type PathChange struct {
	Path   string `json:"path"`
	Raw    string `json:"raw,omitempty"` // see naming.Base64
	Action string `json:"action"`        // the result of tree.Change.Action
}

// PathChangeOf returns the description of a step for users.
func PathChangeOf(s Step) PathChange {
	p := PathChange{Path: s.Path.Short(), Action: tree.ActionOf(s.Before != 0, s.After != 0)}
	if p.Raw = naming.Base64(p.Path); p.Path == "" {
		p.Path = "."
	}

	return p
}

// maxListedBytes is the limit for the bytes of all paths in a result.
const maxListedBytes = 1 << 20

// ListChanges returns the number n of steps that are not trivial, and descriptions of these steps, up to maxListedBytes
// bytes of paths. more is set if descriptions are omitted.
func ListChanges(all []Step) (n int, out []PathChange, more bool) {
	room := maxListedBytes
	out = []PathChange{} // JSON would show nil as null

	for i := range all {
		s := &all[i]
		if IsTrivial(s) {
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
