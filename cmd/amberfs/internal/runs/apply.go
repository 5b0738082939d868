package runs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/executes"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/hooks"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
	"github.com/amberfs/amberfs/stream"
)

// An Apply selects the changes of a workspace that are written to its directory. The user's process
// writes them: the daemon never touches a directory of the host.
type Apply struct {
	Leave  []naming.BytePath   `json:"leave,omitempty" jsonschema:"paths that the directory keeps as they are, with all below them"`
	Hunks  map[string][]string `json:"hunks,omitempty" jsonschema:"by path, the ids of the only hunks of a file that are applied"`
	Ours   bool                `json:"ours,omitempty" jsonschema:"keep the directory's version of conflicting paths"`
	Theirs bool                `json:"theirs,omitempty" jsonschema:"take the workspace's version of conflicting paths"`
	Merge  bool                `json:"merge,omitempty" jsonschema:"merge a branch of git that is checked out and moved on both sides"`
	// NoIgnore is --no-ignore.
	NoIgnore bool `json:"no_ignore,omitempty" jsonschema:"also apply what is left out otherwise"`
	DryRun   bool `json:"dry_run,omitempty" jsonschema:"change nothing, and return what would change"`
}

// Do applies the changes of the workspace of c to the directory of r. r has no name if the workspace is not a
// run. After the apply, a run continues from the state of the directory. The run is marked as applied if all its
// changes were applied. If a run has several directories, Do first checks all of them and changes none if one has a
// conflict. The paths in a and in the result are relative for the first directory, and absolute for the others.
func (a Apply) Do(ctx context.Context, f *Finder, c *client.Client, r *Run) (result *hostdir.ApplyResult, err error) {
	rule, err := threeway.RuleOf(a.Ours, a.Theirs)
	if err != nil {
		return nil, err
	}

	err = f.WithGroup(ctx, r, c, func(parts []*Part) error {
		var plans []*hostdir.ApplyResult
		var conflict error
		for i, p := range parts {
			if p.Run.State == service.RunRunning && !a.DryRun {
				return errs.Fail(errs.Busy, "a program is in the run %s", p.Run.Name).
					WithHint("end it first, or apply what it has changed until now with `amberfs apply --run %s`", p.Run.Name)
			}

			plan, err := a.plan(ctx, p, i == 0, rule)
			if errors.Is(err, hostdir.ErrConflict) {
				conflict = err
			} else if err != nil {
				return err
			}
			plans = append(plans, plan)
		}

		if result = joinResults(plans); conflict != nil {
			e := *errs.ErrorOf(conflict)
			return e.WithResult(result)
		}
		if a.DryRun {
			return nil
		}

		plans = nil
		for i, p := range parts {
			applied, err := a.apply(ctx, p, i == 0, rule)
			if plans = append(plans, applied); err != nil {
				result = joinResults(plans)
				return err
			}
		}
		result = joinResults(plans)

		return nil
	})
	return result, err
}

// plan returns the result of a dry run of the apply to one directory.
func (a Apply) plan(ctx context.Context, p *Part, isFirst bool, rule threeway.Rule) (*hostdir.ApplyResult, error) {
	o, err := a.options(ctx, p, isFirst, rule)
	if err != nil {
		return nil, err
	}
	o.DryRun = true

	return ApplyChanges(ctx, p.Changes, p.Run.Dir, o)
}

// apply applies the changes of a part to its directory.
func (a Apply) apply(ctx context.Context, p *Part, isFirst bool, rule threeway.Rule) (*hostdir.ApplyResult, error) {
	o, err := a.options(ctx, p, isFirst, rule)
	if err != nil {
		return nil, err
	}

	done, err := ApplyChanges(ctx, p.Changes, p.Run.Dir, o)
	if err != nil || p.Run.Name == "" {
		return done, err
	}

	allApplied := o.Choose == nil && !a.Ours && !done.Incomplete
	return done, p.Run.FinishApply(ctx, p.Client, done, allApplied, func(service.Progress) {})
}

// options returns the options of the apply to one directory, with the choices for its paths. isFirst is set for
// the first directory of a run.
func (a Apply) options(ctx context.Context, p *Part, isFirst bool, rule threeway.Rule) (hostdir.ApplyOptions, error) {
	o := hostdir.ApplyOptions{BaseFromDir: true, WorkspaceName: p.Run.Name, Everything: a.NoIgnore, Merge: a.Merge, ConflictRule: rule}
	a = a.forDir(p.Run.Dir, isFirst)
	if len(a.Leave)+len(a.Hunks) == 0 {
		return o, nil
	}

	dry := o
	dry.DryRun = true
	plan, err := ApplyChanges(ctx, p.Changes, p.Run.Dir, dry)
	if err != nil && !errors.Is(err, hostdir.ErrConflict) {
		return o, err
	}

	o.Choose, err = a.choiceFunc(ctx, p.Changes, plan.Plan)
	return o, err
}

// forDir returns a copy of a that has only the paths in one directory of the run, relative to this directory.
func (a Apply) forDir(dir string, isFirst bool) Apply {
	all := a
	a.Leave, a.Hunks = nil, make(map[string][]string)

	for _, name := range all.Leave {
		if rel, ok := relativeTo(dir, string(name), isFirst); ok {
			a.Leave = append(a.Leave, naming.BytePath(rel))
		}
	}
	for name, ids := range all.Hunks {
		if rel, ok := relativeTo(dir, name, isFirst); ok {
			a.Hunks[rel] = ids
		}
	}

	return a
}

// relativeTo returns a path relative to a directory of the run; ok is false if the path is not in it. Relative
// paths belong to the first directory.
func relativeTo(dir, name string, isFirst bool) (rel string, ok bool) {
	if !path.IsAbs(name) {
		return name, isFirst
	}
	return strings.CutPrefix(name, dir+"/")
}

// joinResults joins the results for several directories to one result. In it, the paths in all directories but the
// first are absolute.
func joinResults(results []*hostdir.ApplyResult) *hostdir.ApplyResult {
	if len(results) == 0 || results[0] == nil {
		return nil
	}

	joined := *results[0]
	for _, done := range results[1:] {
		if done == nil {
			continue
		}

		joined.Changed, joined.Files, joined.Incomplete = joined.Changed+done.Changed, joined.Files+done.Files, joined.Incomplete || done.Incomplete
		absolute := func(name string) string { return path.Join(done.Dir, name) }
		for _, c := range done.Paths {
			if raw, err := base64.StdEncoding.DecodeString(c.Raw); c.Raw != "" && err == nil {
				c.Raw = naming.Base64(absolute(string(raw)))
			}
			c.Path = absolute(c.Path)
			joined.Paths = append(joined.Paths, c)
		}
		for _, name := range done.Executes {
			joined.Executes = append(joined.Executes, naming.BytePath(absolute(string(name))))
		}
		for _, s := range append(done.Skipped, done.Notes...) {
			s.Path = absolute(s.Path)
			joined.Notes = append(joined.Notes, s)
		}
		for from, to := range map[*[]string]*[]string{&done.Conflicts: &joined.Conflicts, &done.LeftOut: &joined.LeftOut, &done.Hidden: &joined.Hidden} {
			for _, name := range *from {
				*to = append(*to, absolute(name))
			}
		}
		for _, g := range done.Git {
			g.Dir = absolute(g.Dir)
			joined.Git = append(joined.Git, g)
		}
	}

	return &joined
}

// ApplyChanges applies changes to a directory. The error about conflicts contains the result, which has their paths.
func ApplyChanges(ctx context.Context, ch *client.Changes, dir string, o hostdir.ApplyOptions) (*hostdir.ApplyResult, error) {
	if o.BaseFromDir {
		if err := requireMounted(dir, ch.Source, ch.Base); err != nil {
			return nil, err
		}
	}

	o.AgentChange, o.MergeLines, o.Git = hooks.HookOnlyChecker, gitbridge.MergeConfigs(diff.Merger{}.Merge), gitbridge.HostGit{}
	o.Source, o.Base, o.Now, o.Prefetch = ch.Source, ch.Base, ch.Now, ch.Prefetch
	o.Hidden, o.Read = ch.Hidden, ReadOptions(dir, ch.Store(), ch.Hidden)
	if o.Undo = ch.UndoesApply; !o.DryRun && !o.Undo {
		o.Record = applyRecorder(ctx, ch, dir, o.BaseFromDir)
		o.Read.Prefetch = ch.Prefetch
		o.Read.Skip = func(string, error) {} // unreadable paths are not reported here, but by the refresh after the apply
	}

	done, err := hostdir.Apply(ctx, dir, o)
	if done != nil {
		done.Executes = executes.ExecutedPaths(done.Plan)
	}
	if err == nil {
		return done, nil
	}

	err = hostdir.Explain(err, done)
	if done != nil && len(done.Conflicts) > 0 {
		withPaths := *errs.ErrorOf(err)
		err = withPaths.WithResult(done)
	}

	return done, err
}

// applyRecorder returns a function for ApplyOptions.Record. The function sends the changed paths of the directory to the
// daemon, as they are before and after the apply, so that the apply can be undone.
func applyRecorder(ctx context.Context, ch *client.Changes, dir string, baseFromDir bool) func(bool, func(*tree.State, stream.Sink) error) error {
	base, _ := ch.Base.ID()
	now, _ := ch.Now.ID()
	req := service.RecordApply{Dir: dir, Own: baseFromDir, Base: base.String(), Now: now.String()}

	return func(after bool, read func(*tree.State, stream.Sink) error) error {
		ctx := ctx
		if after {
			ctx = context.WithoutCancel(ctx)
		}

		done, err := ch.RecordApply(ctx, req, read)
		for tries := 1; tries < 5 && errors.Is(err, io.ErrUnexpectedEOF); tries++ { // a file became shorter while it was read
			done, err = ch.RecordApply(ctx, req, read)
		}
		if err != nil {
			format := "keeping what %s has, so that the apply can be undone: %w"
			if after {
				format = "the apply cannot be undone exactly: reading %s after it: %w"
			}
			return errs.Fail(errs.ScriptKind(err), format, dir, err)
		}

		req.Number, req.Base = done.Number, done.State

		return nil
	}
}

// requireMounted fails if a directory is empty because the file system that was copied is not mounted there.
func requireMounted(dir string, src *tree.Source, base *tree.State) error {
	missing, err := hostdir.ProbablyUnmounted(dir, src, base)
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "reading %s: %w", dir, err)
	}

	if missing {
		return errs.Fail(errs.Failed, "%s is empty, and not the directory that was copied; nothing was changed", dir).
			WithHint("mount it first; if it was emptied, create a file in it")
	}

	return nil
}

// FinishApply is called after a run was applied to its directory. It refreshes the run from the directory. If all
// changes were applied, it marks the run as applied. It ignores conflicts of the refresh: the next refresh reports
// them. c is connected with the run.
func (r *Run) FinishApply(ctx context.Context, c *client.Client, result *hostdir.ApplyResult, allApplied bool, showProgress func(service.Progress)) error {
	_, _, err := Refresh(ctx, c, r.Dir, r.Store, service.Refresh{}, showProgress, RefreshFilter{})
	if errs.ScriptKind(err) == errs.Conflict {
		err = nil
	} else if err != nil {
		err = errs.Fail(errs.ScriptKind(err), "the changes were applied, but not noted in the run %s: %w", r.Name, err).
			WithHint("do that with `amberfs refresh --run %s`", r.Name)
	}

	if allApplied && (r.State != service.RunApplied || result.Changed > 0) {
		count := fmt.Sprintf(service.AppliedFormat, result.Files, len(result.Git))
		err = errors.Join(err, takeSnapshot(ctx, c, r.Command, map[string]string{service.RunLabel: service.RunApplied, service.AppliedLabel: count}))
	}

	return err
}

// choiceFunc returns a function that returns the choice for a path.
func (a Apply) choiceFunc(ctx context.Context, ch *client.Changes, plan []hostdir.PlannedChange) (func(string) hostdir.Choice, error) {
	choices := make(map[string]hostdir.Choice)

	for _, p := range plan {
		name := p.Path.String()
		choice := hostdir.Choice{Leave: naming.IsUnderAny(name, a.Leave)}
		if !choice.Leave && (p.Before == nil || p.Before.IsDir()) && (p.After == nil || p.After.IsDir()) {
			continue
		}

		if ids, ok := a.Hunks[name]; ok && !choice.Leave {
			var err error
			if choice, err = chooseHunks(ctx, ch, p, ids); err != nil {
				return nil, err
			}
		}

		choices[name] = choice
	}

	// ChooseDirs derives the choices for new and deleted directories from the choices for their entries.
	hostdir.ChooseDirs(choices, plan)
	return func(name string) hostdir.Choice {
		if c, ok := choices[name]; ok {
			return c
		}
		return hostdir.Choice{Leave: naming.IsUnderAny(name, a.Leave)}
	}, nil
}

// FileHunks returns the hunks of one file of a run. Apply.Hunks takes their ids.
func FileHunks(ctx context.Context, f *Finder, c *client.Client, r *Run, name string) (text diff.Text, err error) {
	err = f.WithGroup(ctx, r, c, func(parts []*Part) error {
		for i, p := range parts {
			if rel, ok := relativeTo(p.Run.Dir, name, i == 0); ok {
				text, err = diff.TextOf(ctx, p.Changes.Source, p.Changes.Base, p.Changes.Now, rel, "", diff.Options{Paths: []string{rel}})
				return err
			}
		}
		return errs.Fail(errs.NotExist, "%s is in no directory of the run", name)
	})
	return text, err
}

// chooseHunks returns the choice that applies only those hunks of a file that have the given ids.
func chooseHunks(ctx context.Context, ch *client.Changes, p hostdir.PlannedChange, ids []string) (hostdir.Choice, error) {
	if p.Before == nil || p.After == nil || !p.Before.IsRegular() || !p.After.IsRegular() {
		return hostdir.Choice{}, errs.Fail(errs.Invalid, "%s has no parts", p.Path.Short())
	}
	found, err := diff.TextOfChange(ctx, ch.Source, p.Change)
	if err != nil {
		return hostdir.Choice{}, err
	}

	n := len(found.Hunks)
	chosen := slices.DeleteFunc(found.Hunks, func(h diff.Hunk) bool { return !slices.Contains(ids, h.ID) })
	if len(chosen) == 0 || len(chosen) == n {
		return hostdir.Choice{Leave: len(ids) == 0}, checkNotStale(p, len(chosen), ids)
	}

	text, err := diff.ApplyHunks(ch.Source, p.Change, chosen)
	return hostdir.Choice{Text: text}, errors.Join(err, checkNotStale(p, len(chosen), ids))
}

// checkNotStale returns an error if fewer hunks were found in the file than ids were chosen.
func checkNotStale(p hostdir.PlannedChange, found int, ids []string) error {
	if found == len(ids) {
		return nil
	}
	return errs.Fail(errs.Conflict, "%s changed meanwhile; nothing was applied", p.Path.Short()).WithHint("look at it again")
}

// CheckApplicable returns an error if a run cannot be applied to a directory: the run was removed, or the directory
// is a mount of the run.
func (r *Run) CheckApplicable(dir string) error {
	if r.State == service.RunRemoved {
		return removedError(r.Name)
	}
	return CheckOutsideWorkspaces(r.Store, dir, "do it outside of the run")
}

// CheckOutsideWorkspaces returns an error for a directory that is in a workspace of the store.
func CheckOutsideWorkspaces(store, dir, hint string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	if p, err := locate.Find(mounts, dir); err == nil && p.Store == store {
		return errs.Fail(errs.Invalid, "%s is the workspace itself here, not the directory that it was copied from", dir).WithHint("%s", hint)
	}

	return nil
}
