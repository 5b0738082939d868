package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/hide"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/actors/blame"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/content"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// MergeRules are the options of all merges and undos.
type MergeRules struct {
	Ours   bool `json:"ours,omitempty" jsonschema:"keep the workspace's version of conflicting paths"`
	Theirs bool `json:"theirs,omitempty" jsonschema:"take the other version of conflicting paths; in an undo, that before the changes"`
	DryRun bool `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
}

type MergeOptions struct {
	Fork string `json:"fork" jsonschema:"the fork"`
	MergeRules
	// Resolve has priority over Ours and Theirs.
	Resolve map[string]threeway.Rule `json:"resolve,omitempty" jsonschema:"ours or theirs, by path, for single conflicting paths; merge for a git directory"`
	// Contents has priority over Resolve.
	Contents    map[string]threeway.Decision `json:"contents,omitempty" jsonschema:"the texts of single conflicting paths, by path"`
	Keep        []naming.BytePath            `json:"keep,omitempty" jsonschema:"paths that the workspace keeps as they are, with all below them"`
	MergeBranch bool                         `json:"merge,omitempty" jsonschema:"merge a branch of git that is checked out and moved on both sides"`
	// RefuseDiverged is described at threeway.GitOptions.
	RefuseDiverged bool               `json:"refuse_diverged,omitempty" jsonschema:"a branch of git that moved on both sides is a conflict, which resolve decides by its path, such as .git/refs/heads/main"`
	Merge          threeway.Merger    `json:"-"` // merges files that changed on both sides; nil: they are conflicts
	Git            threeway.GitMerger `json:"-"` // merges git directories; nil: they are merged as files
	// FromDirectory is described at threeway.GitOptions.
	FromDirectory bool           `json:"-"`
	Caller        actors.Caller  `json:"-"`
	Hidden        *hide.Matcher  `json:"-"` // set by Merge and Refresh: the paths that the workspace keeps as they are
	Applied       *tree.State    `json:"-"` // set by Refresh, see threeway.Interval
	ListCharge    *budget.Charge `json:"-"` // see RestoreOptions
}

// A MergeResult lists the changes of a merge or of an undo of an actor. If it was refused, it lists the
// conflicts.
type MergeResult struct {
	Conflicts []string              `json:"conflicts,omitempty" jsonschema:"paths that changed on both sides in ways that do not merge"`
	Git       []threeway.Repository `json:"git,omitempty" jsonschema:"what happened to git directories"`
	Hidden    []string              `json:"hidden,omitempty" jsonschema:"paths that the fork created at hidden paths, which stay in the fork"`
	Changes
}

// ConflictPaths returns the paths in conflict. Results that embed a MergeResult have this method, too.
func (m *MergeResult) ConflictPaths() []string { return m.Conflicts }

type PromoteResult struct {
	Fork string `json:"fork"`
	MergeResult
}

// Merge applies the changes of a fork since its base to the workspace. A path with different
// changes on both sides that cannot be merged is a conflict. If the options do not resolve all
// conflicts, Merge changes nothing and returns threeway.ErrConflict.
func (fs Forks) Merge(ctx context.Context, o MergeOptions) (PromoteResult, error) {
	f, err := fs.Named(o.Fork)
	if err != nil {
		return PromoteResult{Fork: o.Fork}, err
	}

	args := change{name: "merge", caller: o.Caller, listCharge: o.ListCharge, sourceName: o.Fork, readViews: []uint32{f.ws.View}, Changes: Changes{DryRun: o.DryRun}}
	c, err := fs.w.change(ctx, args, func(c *change) error {
		in, err := fs.forkSides(f, c)
		if err != nil {
			return err
		}

		rules := f.Policy()
		o.Hidden = rules.HideMatcher()
		c.message, c.checkBeforePublish = "before merge of "+f.ws.Name, f.ws.CheckAlive
		c.graft = live.GraftOptions{Options: graft.Options{Source: in.After, View: f.ws.View}, ActorsOf: in.ActorsOf}
		return o.plan(ctx, c, in.Before)
	})
	if c.Undo != "" {
		fs.w.store.Hooks.emit(events.Event{Workspace: fs.w.ws.View, Action: "merged", From: o.Fork}, o.Caller)
	}

	return PromoteResult{o.Fork, c.mergeResult()}, err
}

// textStorer returns a function that stores the bytes of a reader as the content of a file.
func textStorer(s *Store) func(context.Context, io.Reader) (*content.Content, error) {
	return func(ctx context.Context, r io.Reader) (*content.Content, error) {
		sealed, err := content.FromReader(ctx, &content.Sealer{Src: s.src.Files, Objects: s.cas}, r)
		if err != nil {
			return nil, err
		}
		return content.FromChunkMap(sealed), nil
	}
}

// forkSides returns the base and the present state of a fork, and the actors of the changes between them. The
// change c holds both states.
func (fs Forks) forkSides(f *Workspace, c *change) (sides blame.States, err error) {
	s := fs.w.store
	sides.Source = s.src
	var changed actors.Changes
	err = s.forest.Update(true, func(tx *live.Tx) (err error) {
		sn := s.cat.Snapshots.At(f.ws.Base)
		if sn == nil {
			return fmt.Errorf("%w: fork %q has no base", catalogue.ErrNotFound, f.ws.Name)
		}
		if sides.Before, err = sn.Tree(s.src); err != nil {
			return err
		}

		c.holdState(sides.Before)
		changed = f.ws.AllChanges(tx)
		if sides.After, err = tx.Capture(f.ws.View); err != nil {
			return err
		}

		c.holdState(sides.After)

		return nil
	})

	sides.ActorSet = s.parts.Union(changed)
	return sides, err
}

// conflictRules returns the function Rule of the plan of a merge. It checks the options that decide conflicts. The
// workspace keeps the paths in keep.
func (o *MergeOptions) conflictRules(keep []string) (func(path string) threeway.Rule, error) {
	rule, err := threeway.RuleOf(o.Ours, o.Theirs)
	if err != nil {
		return nil, err
	}

	for path, side := range o.Resolve {
		if side != threeway.KeepOurs && side != threeway.TakeTheirs && side != threeway.MergeCheckedOut {
			return nil, errs.New(errs.Invalid, "resolve takes ours, theirs or merge for %s, not %q", path, side)
		}
	}

	return func(path string) threeway.Rule {
		if o.Hidden.Hides(path, true) || naming.IsUnderAny(path, keep) {
			return threeway.KeepOurs
		}
		return cmp.Or(o.Resolve[path], rule)
	}, nil
}

// plan plans the merge of the changes from base to the state c.graft.Source.
func (o *MergeOptions) plan(ctx context.Context, c *change, base *tree.State) error {
	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return err
	}

	rules, err := o.conflictRules(keep)
	if err != nil {
		return err
	}

	p := &threeway.Plan{
		Source: c.w.store.src, StoreText: textStorer(c.w.store), Ours: c.present, View: c.w.ws.View, Now: time.Now().UnixNano(), Merge: o.Merge, ListCharge: o.ListCharge, ByPath: true,
		Decisions: o.Contents, Rule: rules, Git: o.Git,
		GitOptions: threeway.GitOptions{TheirName: cmp.Or(o.Fork, "dir"), FromDirectory: o.FromDirectory, DryRun: o.DryRun, MergeBranch: o.MergeBranch, RefuseDiverged: o.RefuseDiverged},
	}
	all, exact, err := p.TakeAll(ctx, threeway.Interval{Base: base, Theirs: c.graft.Source, Applied: o.Applied, View: c.graft.View})
	if err != nil {
		return err
	}
	all, kept := graft.DropKept(all, keep)
	hidden := make(map[string]bool)
	hides := func(name string) bool {
		top, found := o.Hidden.TopHidden(name)
		if found {
			hidden[top] = true
		}
		return found
	}
	p.Conflicts = slices.DeleteFunc(p.Conflicts, hides)
	all = slices.DeleteFunc(all, func(s graft.Step) bool { return s.Path != nil && hides(s.Path.String()) })
	c.hidden = slices.Sorted(maps.Keys(hidden))

	partial := len(kept)+len(c.hidden) > 0
	c.graft.Exact, c.graft.KeepNonEmptyDirs = exact && !partial, partial
	return c.usePlan(p, all)
}
