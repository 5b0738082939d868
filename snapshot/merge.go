package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/catalogue"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
	"github.com/amberfs/amberfs/snapshot/live"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

type MergeOptions struct {
	Fork   string `json:"fork" jsonschema:"the fork"`
	Ours   bool   `json:"ours,omitempty" jsonschema:"keep the workspace's version of conflicting paths"`
	Theirs bool   `json:"theirs,omitempty" jsonschema:"take the fork's version of conflicting paths"`
	// Resolve decides single paths, before Ours and Theirs.
	Resolve map[string]threeway.Rule `json:"resolve,omitempty" jsonschema:"ours or theirs, by path, for single conflicting paths"`
	// Contents decides before Resolve.
	Contents map[string]threeway.Decision `json:"contents,omitempty" jsonschema:"the texts of single conflicting paths, by path"`
	Keep     []naming.BytePath            `json:"keep,omitempty" jsonschema:"paths that the workspace keeps as they are, with all below them"`
	Join     bool                         `json:"merge,omitempty" jsonschema:"merge a branch of git that is checked out and moved on both sides"`
	DryRun   bool                         `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
	Merge    threeway.Merger              `json:"-"` // merges files that changed on both sides; nil for none
	Git      threeway.Repositories        `json:"-"` // brings git directories together; nil: they are files
	// FromDirectory: see threeway.Sides.
	FromDirectory bool           `json:"-"`
	Caller        actors.Caller  `json:"-"`
	List          *budget.Charge `json:"-"` // see RestoreOptions
}

// A MergeResult is what a merge or an undo of an actor changed, or why it changed nothing.
type MergeResult struct {
	Conflicts []string              `json:"conflicts,omitempty" jsonschema:"paths that changed on both sides in ways that do not merge"`
	Git       []threeway.Repository `json:"git,omitempty" jsonschema:"what happened to git directories"`
	Changes
}

// InConflict returns the paths in conflict.
func (m *MergeResult) InConflict() []string { return m.Conflicts }

type PromoteResult struct {
	Fork string `json:"fork"`
	MergeResult
}

// Merge makes the changes of a fork since its base in the workspace.
// A path that changed on both sides in different ways, which do not merge, is a
// conflict: nothing is touched then, unless the options decide.
func (fs Forks) Merge(ctx context.Context, o MergeOptions) (PromoteResult, error) {
	res := PromoteResult{Fork: o.Fork}
	rule, err := threeway.RuleOf(o.Ours, o.Theirs)
	if err != nil {
		return res, err
	}
	for path, side := range o.Resolve {
		if side != threeway.KeepOurs && side != threeway.TakeTheirs {
			return res, errs.New(errs.Invalid, "resolve takes ours or theirs for %s, not %q", path, side)
		}
	}
	f, err := fs.Named(o.Fork)
	if err != nil {
		return res, err
	}
	order := change{caller: o.Caller, list: o.List, from: o.Fork, reads: []uint32{f.ws.View}, Changes: Changes{DryRun: o.DryRun}}
	c, err := fs.w.change(ctx, order, func(c *change) error {
		in, err := fs.sides(f, c)
		if err != nil {
			return err
		}
		c.message, c.check = "before merge of "+f.ws.Name, f.ws.Alive
		c.graft = live.Graft{Options: graft.Options{Source: in.After, View: f.ws.View}, By: in.ActorsOf}
		return o.plan(ctx, c, in.Before, rule)
	})
	if c.Undo != "" {
		fs.w.store.event(events.Event{Workspace: fs.w.ws.View, Action: "merged", From: o.Fork}, o.Caller)
	}
	return PromoteResult{o.Fork, c.mergeResult()}, err
}

// sides returns the states of a fork at its base and now, and who changed what between them.
func (fs Forks) sides(f *Workspace, c *change) (in graft.States, err error) {
	s := fs.w.store
	in.Source = s.src
	var changed actors.Changes
	err = s.forest.Update(true, func(tx *live.Tx) (err error) {
		sn, ok := s.cat.Snapshots[f.ws.Base]
		if !ok {
			return fmt.Errorf("%w: fork %q has no base", catalogue.ErrNotFound, f.ws.Name)
		}
		if in.Before, err = sn.Tree(s.src); err != nil {
			return err
		}
		c.hold(in.Before)
		changed = f.ws.AllChanges(tx)
		if in.After, err = tx.Capture(f.ws.View); err == nil {
			c.hold(in.After)
		}
		return err
	})
	in.Set = s.parts.Union(changed)
	return in, err
}

// plan plans the merge of what the source of the change's graft has changed since base.
func (o *MergeOptions) plan(ctx context.Context, c *change, base *tree.State, rule threeway.Rule) error {
	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return err
	}
	rules := func(path string) threeway.Rule {
		if slices.ContainsFunc(keep, func(k string) bool { return naming.Under(path, k) }) {
			return threeway.KeepOurs
		}
		return cmp.Or(o.Resolve[path], rule)
	}
	p := &threeway.Plan{
		Source: c.w.store.src, Objects: c.w.store.cas, Ours: c.now, View: c.w.ws.View, Now: time.Now().UnixNano(), Merge: o.Merge, List: o.List, ByPath: true,
		Decided: o.Contents, Rule: rules, Git: o.Git, Name: cmp.Or(o.Fork, "dir"), FromDirectory: o.FromDirectory, DryRun: o.DryRun, Join: o.Join,
	}
	all, exact, err := p.TakeAll(ctx, threeway.Interval{Base: base, Theirs: c.graft.Source, View: c.graft.View})
	if err == nil {
		err = p.AllDecided()
	}
	if err != nil {
		return err
	}
	all, kept := graft.Without(all, keep)
	c.graft.Exact, c.graft.KeepFull = exact && len(kept) == 0, len(kept) > 0
	return c.take(p, all)
}
