package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/actors"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/policy"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// snapshots has the operations on the snapshots of a workspace.
type snapshots struct {
	syncStore func() error // see snapshot.Store.Sync
}

// take takes a snapshot. If a.IfChanged is set and nothing changed, it takes none and returns the newest one.
func (sn *snapshots) take(ctx context.Context, r *Request, a snapshot.CaptureOptions) (info.Info, error) {
	a.Caller = r.Caller
	if a.Kind != "" && a.Kind != info.KindManual && a.Kind != info.KindTurn {
		return info.Info{}, errs.Fail(errs.Invalid, "the kind must be manual or turn, not %q", a.Kind)
	}

	if _, state := a.Labels[RunLabel]; state && !r.Caller.ViaSocket && r.Workspace.Parent() != nil {
		return info.Info{}, errs.Fail(errs.Perm, "the label %q of a fork has the state of a run, which a program in it cannot set", RunLabel).
			WithHint("choose another label")
	}

	info, err := r.Workspace.Capture(a)
	if err = errs.Ignore(err, snapshot.ErrUnchanged); err != nil || !a.Wait {
		return info, err
	}

	return sn.awaitSealed(ctx, r, info)
}

// awaitSealed waits until a snapshot has its id, and is on disk.
func (sn *snapshots) awaitSealed(ctx context.Context, r *Request, made info.Info) (info.Info, error) {
	r.progress(Progress{What: "sealing " + made.Name})
	sealed, err := r.Workspace.Snapshots().WaitSealed(ctx, made.Name)
	if err == nil {
		err = sn.syncStore()
	}
	if err != nil {
		return made, errs.Fail(errs.ScriptKind(err), "snapshot %s was taken, but is not stored: %w", made.Name, err)
	}

	return sealed, nil
}

func (*snapshots) list(ctx context.Context, r *Request, a List) (Snapshots, error) {
	since, err := ParseSince(a.Since)
	if err = errors.Join(err, checkOneOf("kind", a.Kind, info.Kinds), checkKinds("without", a.Without)); err != nil {
		return Snapshots{}, err
	}

	out := Snapshots{Snapshots: []info.Info{}, Head: r.Workspace.Snapshots().Head()}
	if undo, err := r.Workspace.Find("undo"); err == nil {
		out.Undo = undo.Name
	}

	charge := r.listMemoryCharge()

	for i := range r.Workspace.Snapshots().NewestFirst() {
		if a.Limit > 0 && len(out.Snapshots) == a.Limit {
			break
		}

		if a.matches(i) && !i.Created.Before(since) && (a.Before == 0 || i.Seq < a.Before) {
			if err := chargeInfo(ctx, charge, i); err != nil {
				return out, err
			}
			out.Snapshots = append(out.Snapshots, i)
		}
	}

	return out, nil
}

// checkKinds returns an error if a list of kinds, separated by commas, has an unknown kind.
func checkKinds(what, list string) (err error) {
	for kind := range strings.SplitSeq(list, ",") {
		err = errors.Join(err, checkOneOf(what, kind, info.Kinds))
	}
	return err
}

// chargeInfo reserves the memory for a snapshot in an answer. It waits while other requests have reserved too
// much.
func chargeInfo(ctx context.Context, charge *budget.Charge, i info.Info) error {
	const infoBytes = 1000 // bytes of a snapshot in memory, without the message and the labels
	const copies = 4       // number of copies of the message and the labels in memory, until the answer is sent
	n := len(i.Message)
	for k, v := range i.Labels {
		n += len(k) + len(v)
	}
	return reserveMemory(ctx, charge, infoBytes+copies*int64(n))
}

// matches reports whether a snapshot has the kind, the labels and the actor that the list asks for.
func (a List) matches(i info.Info) bool {
	for k, v := range a.Labels {
		if have, ok := i.Labels[k]; !ok || have != v {
			return false
		}
	}
	if a.By != "" && !actors.ContainsOrBelow(i.Actors, a.By) {
		return false
	}
	return (a.Kind == "" || i.Kind == a.Kind) && !slices.Contains(strings.Split(a.Without, ","), i.Kind)
}

// ParseSince reads a date, or a duration before now. It returns the zero time for "".
func ParseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}

	for _, layout := range []string{time.RFC3339, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}

	d, err := policy.ParseSpan(text)
	if err != nil || d < 0 {
		return time.Time{}, errs.Fail(errs.Invalid, "since is a duration such as 30m, 24h, 7d or 2w, or a date such as 2026-01-31 or in RFC 3339, not %q", text)
	}

	return time.Now().Add(-d), nil
}

// newestSnapshot returns the newest snapshot for which matches returns true; ok is false if there is none.
func newestSnapshot(ws *snapshot.Workspace, matches func(info.Info) bool) (i info.Info, ok bool) {
	for i := range ws.Snapshots().NewestFirst() {
		if matches(i) {
			return i, true
		}
	}
	return info.Info{}, false
}

// summarize compares each snapshot with its parent.
func (*snapshots) summarize(ctx context.Context, r *Request, a Summaries) (Summarized, error) {
	const maxNames, maxCounted = 100, 10_000
	out := Summarized{Summaries: make(map[string]Summary)}
	if len(a.Names) > maxNames {
		return out, errs.Fail(errs.Invalid, "names has more than %d names", maxNames)
	}

	for _, name := range a.Names {
		one, err := r.Workspace.Find(name)
		if err != nil {
			return out, err
		}

		// If the parent was deleted, compare with the previous snapshot or, for the oldest snapshot, with the
		// base.
		sum := Summary{Against: one.Parent}

		if _, err := r.Workspace.Find(one.Parent); err != nil {
			before, _ := newestSnapshot(r.Workspace, func(i info.Info) bool { return i.Seq < one.Seq && i.IsPastState() })
			sum.Against = cmp.Or(before.Name, baseStateName)
		}

		if err := withStates(r, sum.Against, one.Name, func(from, to *tree.State) error {
			files, more, err := diff.FirstFiles(ctx, r.source, from, to, diff.Options{}, maxCounted)
			sum.More = more

			for _, f := range files {
				switch f.Status {
				case diff.Added:
					sum.Added++
				case diff.Deleted:
					sum.Deleted++
				default:
					sum.Modified++
				}

				if sum.Bytes += diff.Size(f.After); f.After == nil {
					sum.Bytes += diff.Size(f.Before)
				}
			}

			return err
		}); err != nil {
			return out, err
		}

		out.Summaries[name] = sum
	}

	return out, nil
}

func (*snapshots) show(_ context.Context, r *Request, a Show) (info.Info, error) {
	return r.Workspace.Find(a.Name)
}

func (*snapshots) rename(_ context.Context, r *Request, a Rename) (info.Info, error) {
	old, err := r.Workspace.Find(a.From)
	if err != nil {
		return old, err
	}
	if err := r.Workspace.Snapshots().Rename(old.Name, a.To, r.Caller); err != nil {
		return old, err
	}

	return r.Workspace.Find(a.To)
}

func (*snapshots) resumeRename(_ context.Context, r *Request, a Rename) (info.Info, error) {
	return r.Workspace.Find(a.To)
}

// pin sets or removes the protection of snapshots. It changes none if one of the names is unknown.
func (*snapshots) pin(_ context.Context, r *Request, a Pin) (Pinned, error) {
	out, seen := Pinned{Names: []string{}, Pin: a.Pin}, map[string]bool{}

	for _, n := range a.Names {
		info, err := r.Workspace.Find(n)
		if err != nil {
			return Pinned{}, err
		}

		if !seen[info.Name] {
			seen[info.Name] = true
			out.Names = append(out.Names, info.Name)
		}
	}

	for _, n := range out.Names {
		if err := r.Workspace.Snapshots().Amend(n, func(i *info.Info) { i.Pinned = a.Pin }); err != nil {
			return Pinned{}, err
		}
	}

	return out, nil
}

func (*snapshots) remove(_ context.Context, r *Request, a Remove) (Removed, error) {
	if a.Forget {
		names, err := r.Workspace.Snapshots().DeleteAll(a.Names, r.Caller)
		return Removed{Names: names}, err
	}

	names, until, err := r.Workspace.Snapshots().Remove(a.Names, r.Caller)
	return Removed{names, until}, err
}

func (*snapshots) compact(ctx context.Context, r *Request, a snapshot.CompactOptions) (snapshot.Compacted, error) {
	if a.Name == "" {
		return snapshot.Compacted{}, errs.Fail(errs.Invalid, "the new snapshot needs a name").WithHint("give it as name, in a shell with --name")
	}
	a.Caller = r.Caller
	return r.Workspace.Snapshots().Compact(ctx, a)
}

func (*snapshots) diskUsage(ctx context.Context, r *Request, a DU) (*info.Disk, error) {
	return r.Workspace.Snapshots().DiskUsage(ctx, a.Names)
}

func (*snapshots) restore(ctx context.Context, r *Request, a snapshot.RestoreOptions) (snapshot.RestoreResult, error) {
	a.Caller, a.ListCharge = r.Caller, r.listMemoryCharge()
	return r.Workspace.Restore(ctx, a)
}

// restoreHunk restores the lines of one hunk. It also works if other lines of the file have changed since the
// comparison that showed the hunk.
func (*snapshots) restoreHunk(ctx context.Context, r *Request, a RestoreHunk) (out snapshot.RestoreResult, err error) {
	err = withStates(r, a.Name, a.B, func(from, to *tree.State) (err error) {
		out, err = r.Workspace.Restore(ctx, snapshot.RestoreOptions{
			Name: a.Name, Paths: []naming.BytePath{a.Path}, DryRun: a.DryRun, Caller: r.Caller, ListCharge: r.listMemoryCharge(),
			Edit: func(now *tree.State) ([]byte, error) {
				shown := to
				if a.B == "" {
					shown = now
				}

				o := diff.Options{Memory: r.budget(TextMemory)}
				return diff.UndoHunk(ctx, r.source, from, shown, now, string(a.Path), string(a.From), a.ID, o)
			},
		})
		if errors.Is(err, diff.ErrNoHunk) || errors.Is(err, diff.ErrLinesChanged) {
			return errs.Fail(errs.Conflict, "cannot restore these lines of %s: %w", a.Path, err).WithHint("look at the differences again")
		}
		return err
	})
	return out, err
}

// revert restores one path from a snapshot, by default from the newest one in which the path differs from its
// present state.
func (sn *snapshots) revert(ctx context.Context, r *Request, a Revert) (snapshot.RestoreResult, error) {
	if a.Name == "" {
		var err error
		if a.Name, err = newestDiffering(ctx, r, string(a.Path)); err != nil {
			return snapshot.RestoreResult{}, err
		}
	}
	return sn.restore(ctx, r, snapshot.RestoreOptions{Name: a.Name, Paths: []naming.BytePath{a.Path}})
}

// newestDiffering returns the name of the newest snapshot in which path differs from its present state. If there is
// none, it returns the name of the base, but only if the base has the path: otherwise revert would delete a file
// that no snapshot has.
func newestDiffering(ctx context.Context, r *Request, path string) (string, error) {
	src, ws := r.source, r.Workspace
	now, release, err := ws.HoldState("")
	if err != nil {
		return "", err
	}
	defer release()

	differsIn := func(name string) (bool, error) {
		state, release, err := ws.HoldState(name)
		if err != nil {
			return false, err
		}
		defer release()

		n, err := state.InodeAt(src, path)
		if name == baseStateName && (err != nil || n == nil || n.Ino == tree.RootIno) {
			return false, nil
		}

		return pathDiffers(ctx, src, state, now, path)
	}

	for info := range ws.Snapshots().NewestFirst() {
		if !info.IsPastState() {
			continue
		}
		if differs, err := differsIn(info.Name); err != nil || differs {
			return info.Name, err
		}
	}
	if differs, err := differsIn(baseStateName); err != nil || differs {
		return baseStateName, err
	}

	if n, _ := now.InodeAt(src, path); n == nil {
		return "", errNoPath(path)
	}

	return "", errs.Fail(errs.NotExist, "%s is the same in every snapshot", path).
		WithHint("see `amberfs history %s`", path)
}

// baseStateName is the name of the state with which a workspace began.
const baseStateName = "base"

// errNoPath is the error for a path that exists neither now nor in a snapshot.
func errNoPath(path string) error {
	return errs.Fail(errs.NotExist, "no such path, now or in any snapshot: %s", path)
}

// pathDiffers reports whether two states differ at or below path. It also compares modification times.
func pathDiffers(ctx context.Context, src *tree.Source, a, b *tree.State, path string) (bool, error) {
	equal, err := tree.Equal(ctx, src, a, b, tree.DiffOptions{Paths: diffPaths(naming.BytePath(path))}, tree.MtimeDiffers)
	return err == nil && !equal, err
}

// diffPaths returns paths for tree.DiffOptions.Paths. It returns nil, which stands for all paths, if the list is
// empty or has the root.
func diffPaths(paths ...naming.BytePath) []string {
	var out []string
	for _, p := range paths {
		if p == "" || p == "." {
			return nil
		}
		out = append(out, string(p))
	}

	return out
}
