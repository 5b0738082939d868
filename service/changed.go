package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/gitbridge/gitdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// LookLabel is the label of the snapshots that the operation Changed takes. A look is one call of this operation. The
// value of the label is the name of the caller who looked.
const LookLabel = "look"

// sinceLastLook is the value of Changed.Since that asks for the changes since the last look.
const sinceLastLook = "last"

// changed compares the workspace with the snapshot a.Since. If a.Since names no snapshot, it compares with the
// snapshot of the caller's last look. In this case it also takes a snapshot for this look, unless there was a look
// before and nothing has changed since.
func (*files) changed(ctx context.Context, r *Request, a Changed) (WhatChanged, error) {
	a.Look = cmp.Or(a.Look, r.Caller.Actor, "caller")
	sinceLook := a.Since == "" || strings.EqualFold(a.Since, sinceLastLook)
	d := WhatChanged{Since: a.Since, Effects: []PathEffect{}}
	isFirst := false
	if sinceLook {
		d.Since, isFirst = lastLookOf(r, a.Look)
	}

	isEqual := false
	err := withStates(r, d.Since, "", func(from, to *tree.State) (err error) {
		isEqual, err = tree.Equal(ctx, r.source, from, to, tree.DiffOptions{SkipData: true}, 0)
		return err
	})
	if err != nil || isEqual && !isFirst {
		return d, err
	}

	if sinceLook {
		if len(a.Look) > maxLookLabelBytes {
			return d, errs.Fail(errs.Invalid, "look is at most %d bytes long", maxLookLabelBytes)
		}
		made, err := r.Workspace.Capture(snapshot.CaptureOptions{
			Kind: info.KindCall, Message: a.Message, Labels: map[string]string{LookLabel: a.Look}, Caller: r.Caller,
		})
		if err != nil {
			return d, err
		}
		d.Snapshot = made.Name
	}

	err = withStates(r, d.Since, d.Snapshot, func(from, to *tree.State) error { return setEffects(ctx, r, from, to, &d) })
	if len(d.Effects)+len(d.Git) > 0 {
		d.Undo = undoCommand(r, d.Since)
	}

	return d, err
}

// maxLookLabelBytes is the largest length of the value of LookLabel.
const maxLookLabelBytes = 200

// lastLookOf returns the name of the newest snapshot that has the label LookLabel with the value look. If there is no
// such snapshot, isFirst is true, and name is the newest snapshot or, without snapshots, the base.
func lastLookOf(r *Request, look string) (name string, isFirst bool) {
	newest := ""
	for i := range r.Workspace.Snapshots().NewestFirst() {
		if i.Labels[LookLabel] == look {
			return i.Name, false
		}
		newest = cmp.Or(newest, i.Name)
	}

	return cmp.Or(newest, "base"), true
}

// setEffects sets d.Effects and d.Git to the differences between two states. It does not list the files that git
// itself maintains in git directories: d.Git describes their changes in the terms of git.
func setEffects(ctx context.Context, r *Request, from, to *tree.State, d *WhatChanged) error {
	src := r.source
	repos := make(map[string]bool) // for the path of each git directory: whether both states have the directory
	inGit := func(p string) bool {
		repo, rel, ok := threeway.SplitGitPath(p)
		if !ok || gitdir.IsOrdinaryFile(rel) {
			return false
		}

		if _, known := repos[repo]; !known {
			was, err := from.InodeAt(src, repo)
			is, nerr := to.InodeAt(src, repo)
			repos[repo] = err == nil && nerr == nil && was != nil && is != nil && was.IsDir() && is.IsDir()
		}

		return repos[repo]
	}

	list, err := diff.Effects(ctx, src, from, to, diff.Options{List: r.listMemoryCharge()}, inGit)
	if err != nil {
		return err
	}

	for repo, both := range repos {
		if !both {
			continue
		}
		words, err := gitbridge.RefChanges(src, from, to, repo)
		if err != nil {
			words = []string{"its files changed: " + err.Error()}
		}
		for _, w := range words {
			d.Git = append(d.Git, gitquote.ReadableName(repo)+": "+w)
		}
	}

	slices.Sort(d.Git)

	for _, e := range list {
		d.Effects = append(d.Effects, newPathEffect(e))
	}

	return markIgnored(ctx, r, to, d.Effects)
}

// markIgnored sets Ignored for the files in list that were added or overwritten and that .gitignore names. It does
// not mark deletions. A report only sums up the files that are marked, but it must list a deleted file even if git
// ignores the file: git cannot restore it.
func markIgnored(ctx context.Context, r *Request, st *tree.State, list []PathEffect) error {
	const maxLookups = 10_000 // git is not asked about further paths; they are listed as not ignored
	var paths []string
	byPath := make(map[string]*PathEffect)

	for i := range list {
		e := &list[i]
		if e.Action != string(diff.ActionAdd) && e.Action != string(diff.ActionOverwrite) || len(paths) == maxLookups {
			continue
		}

		p := e.rawPath()
		if e.Dir {
			p += "/"
		}

		paths, byPath[p] = append(paths, p), e
	}
	if len(paths) == 0 {
		return nil
	}

	ignored, err := gitbridge.Ignored(ctx, r.source, st, paths)
	if err != nil {
		r.log.Debug("asking git what is ignored", "err", err) // without git all paths are listed
		return nil
	}

	for i, is := range ignored {
		byPath[paths[i]].Ignored = is
	}

	return nil
}

// undoCommand returns the command that undoes the changes since a snapshot. If several actors have made changes
// since then, the command undoes only the changes of the caller.
func undoCommand(r *Request, since string) string {
	var actors []string
	for _, i := range slices.Backward(r.Workspace.Snapshots().Intervals()) {
		if i.To.Name == since {
			break
		}
		actors = append(actors, i.Actors...)
	}

	slices.Sort(actors)
	if actors = slices.Compact(actors); len(actors) > 1 && slices.Contains(actors, r.Caller.Actor) {
		return "amberfs undo --by " + r.Caller.Actor + " --since " + since
	}

	return "amberfs restore " + since
}

func newPathEffect(e diff.Effect) PathEffect {
	out := PathEffect{
		Action: string(e.Action), Path: e.Path, Raw: naming.Base64(e.Path), From: e.From, Dir: e.Dir, Files: e.Files,
		OldSize: diff.Size(e.Change.Before), NewSize: diff.Size(e.Change.After),
	}
	if b, a := e.Change.Before, e.Change.After; b != nil && a != nil {
		out.Note = attributeNote(b, a)
	}

	return out
}

// attributeNote describes the differences in the kind, the permissions, the owner and the extended attributes
// of a path. It returns "" if there are no differences.
func attributeNote(before, after *tree.Inode) string {
	var notes []string
	const permissions = 0o7777
	if before.Type() != after.Type() {
		return "was " + kindText(before) + ", is " + kindText(after)
	}
	if before.Mode&permissions != after.Mode&permissions {
		notes = append(notes, fmt.Sprintf("%04o to %04o", before.Mode&permissions, after.Mode&permissions))
	}
	if before.UID != after.UID || before.GID != after.GID {
		notes = append(notes, fmt.Sprintf("owner %d:%d to %d:%d", before.UID, before.GID, after.UID, after.GID))
	}
	if names := threeway.ChangedXattrs(before, after); len(names) > 0 {
		notes = append(notes, "attributes "+strings.Join(names, " "))
	}
	if before.IsSymlink() && after.IsSymlink() && before.Target != after.Target {
		notes = append(notes, "link to "+gitquote.ReadableName(before.Target)+", now to "+gitquote.ReadableName(after.Target))
	}
	if before.IsRegular() && after.IsRegular() && before.Content.Size() > 0 && after.Content.Size() == 0 {
		notes = append(notes, "emptied")
	}

	return strings.Join(notes, ", ")
}

func kindText(n *tree.Inode) string {
	switch {
	case n.IsDir():
		return "a directory"
	case n.IsSymlink():
		return "a symbolic link"
	case n.IsRegular():
		return "a file"
	}
	return "a special file"
}
