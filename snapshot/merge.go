package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/actors"
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
	out, err := retryWithWholeBudget(ctx, o.List, func() (outcome, error) { return fs.merge(ctx, f, o, rule) })
	if out.report(fs.w, o.Fork, o.Caller); out.Undo != "" {
		fs.w.store.event(Event{Workspace: fs.w.ws.View, Action: "merged", From: o.Fork}, o.Caller)
	}
	out.DryRun = o.DryRun
	res.MergeResult = MergeResult{out.conflicts, out.said, out.Changes}
	return res, err
}

// merge prepares the steps, and then journals and makes them in one step.
func (fs Forks) merge(ctx context.Context, f *Workspace, o MergeOptions, rule threeway.Rule) (out outcome, err error) {
	s := fs.w.store
	e, err := s.forest.As(o.Caller.Actor).Edit(ctx, fs.w.ws.View, f.ws.View)
	if err != nil {
		return out, err
	}
	defer s.Hold(e.Base())()
	defer e.End()
	leave := sync.OnceFunc(s.Importing()) // merged files
	defer leave()
	var base, theirs *tree.State
	var changed actors.Changes
	if err := s.forest.Update(true, func(tx *live.Tx) (err error) {
		sn, ok := s.cat.Snapshots[f.ws.Base]
		if !ok {
			return fmt.Errorf("%w: fork %q has no base", ErrNotFound, f.ws.Name)
		}
		if base, err = sn.Tree(s.src); err != nil {
			return err
		}
		changed = f.ws.AllChanges(tx)
		theirs, err = tx.Capture(f.ws.View)
		return err
	}); err != nil {
		return out, err
	}
	in := graft.States{Source: s.src, Before: base, After: theirs, Set: s.parts.Union(changed)}
	g := live.Graft{Options: graft.Options{Source: theirs, View: f.ws.View}, By: in.ActorsOf}
	p, c, err := o.plan(ctx, fs.w, e, base, g, rule)
	if err != nil {
		return out, err
	}
	c.check, c.leave, c.answer.Of = f.ws.Alive, leave, f.ws.Name
	c.before = CaptureOptions{Message: "before merge of " + f.ws.Name, Caller: o.Caller}
	return c.merge(ctx, p, o.DryRun)
}

// plan plans the merge of what the source of a graft has changed since base.
func (o *MergeOptions) plan(ctx context.Context, w *Workspace, e *live.Edit, base *tree.State, g live.Graft, rule threeway.Rule) (
	p *threeway.Plan, c change, err error) {
	s := w.store
	keep, err := naming.CleanPaths(o.Keep)
	if err != nil {
		return nil, c, err
	}
	rules := func(path string) threeway.Rule {
		if slices.ContainsFunc(keep, func(k string) bool { return path == k || strings.HasPrefix(path, k+"/") }) {
			return threeway.KeepOurs
		}
		return cmp.Or(o.Resolve[path], rule)
	}
	p = &threeway.Plan{
		Source: s.src, Objects: s.cas, Ours: e.Base(), View: w.ws.View, Now: time.Now().UnixNano(), Merge: o.Merge, List: o.List, ByPath: true,
		Decided: o.Contents, Rule: rules, Git: o.Git, Name: cmp.Or(o.Fork, "dir"), FromDirectory: o.FromDirectory, DryRun: o.DryRun,
	}
	all, exact, err := p.TakeAll(ctx, threeway.Interval{Base: base, Theirs: g.Source, View: g.View})
	if err == nil {
		err = p.AllDecided()
	}
	all, kept := graft.Without(all, keep)
	g.Exact, g.KeepFull = exact && len(kept) == 0, len(kept) > 0
	return p, change{w: w, edit: e, steps: all, graft: g}, err
}

// merge is make for the steps of a plan.
func (c change) merge(ctx context.Context, p *threeway.Plan, dryRun bool) (outcome, error) {
	if err := p.Refused(); err != nil {
		return outcome{conflicts: p.Conflicts, said: p.Said}, err
	}
	if dryRun {
		c.edit = nil
	}
	stored, err := p.Stored()
	if err != nil {
		return outcome{}, err
	}
	if stored != nil {
		defer c.w.store.Hold(stored)()
	}
	c.leave()
	c.graft.Now, c.stored = p.Now, stored != nil
	out, err := c.make(ctx)
	out.conflicts, out.said = p.Conflicts, p.Said
	return out, err
}
