package service

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// explainConflict returns an error of the kind Conflict for these two errors of a merge:
//
//   - threeway.ErrConflict: the text is the number of paths, followed by change, such as "changed in the fork and in
//     the workspace". The error also has the hint and the result.
//   - threeway.ErrStaleDecision: contents have changed after the user decided about them.
//
// It returns other errors unchanged.
func explainConflict(err error, result any, paths []string, change, hint string) error {
	switch {
	case errors.Is(err, threeway.ErrConflict):
		return errs.Fail(errs.Conflict, "%s %s", plural(len(paths), "path", "paths"), change).
			WithHint("%s", threeway.DecideHint(hint, paths)).WithResult(result)
	case errors.Is(err, threeway.ErrStaleDecision):
		return errs.Fail(errs.Conflict, "%w", err).WithHint("look at it again")
	}
	return err
}

// showConflict returns the present sides of a path in conflict. The sides can change before the user decides. So the
// result has a digest of the sides (Conflicting.Of), and the operations merge and undo-by compare it with the sides
// at the time of the merge.
func showConflict(ctx context.Context, r *Request, a Conflict) (out Conflicting, err error) {
	now, release, err := r.Workspace.HoldState("")
	if err != nil {
		return out, err
	}
	defer release()

	ours, err := now.InodeAt(r.source(), string(a.Path))
	if err != nil {
		return out, err
	}
	if a.By != "" {
		return undoConflict(ctx, r, a, ours)
	}

	f, err := r.Workspace.Forks().Named(a.Fork)
	if err != nil {
		return out, err
	}

	err = withStates(&Request{Workspace: f}, baseName, "", func(from, to *tree.State) error {
		base, err := from.InodeAt(r.source(), string(a.Path))
		if err != nil {
			return err
		}

		theirs, err := to.InodeAt(r.source(), string(a.Path))
		if err != nil {
			return err
		}
		if base == nil && ours == nil && theirs == nil {
			return errNoPath(string(a.Path))
		}

		out, err = compareSides(ctx, r, base, ours, theirs, base, ours, theirs)
		return err
	})

	return out, err
}

// undoConflict returns the sides of a path in conflict in the undo of an actor. ours is the present file.
func undoConflict(ctx context.Context, r *Request, a Conflict, ours *tree.Inode) (out Conflicting, err error) {
	o, err := completeUndoOptions(ctx, r, snapshot.UndoByOptions{Actor: a.By, Since: a.Since, Paths: []naming.BytePath{a.Path}})
	if err != nil {
		return out, err
	}

	err = r.Workspace.Snapshots().VersionsBy(ctx, o, func(asLeft, without *tree.Inode) error {
		out, err = compareSides(ctx, r, asLeft, ours, without, ours)
		return err
	})
	if errors.Is(err, threeway.ErrConflict) {
		out, err = Conflicting{Binary: true, Parts: []diff.Part{}}, nil
	}

	return out, err
}

// compareSides compares the versions of a file on the three sides of a merge: base, ours and theirs. A version is nil
// if the side does not have the file. The field Of of the result is the digest of the files in digested.
func compareSides(ctx context.Context, r *Request, base, ours, theirs *tree.Inode, digested ...*tree.Inode) (out Conflicting, err error) {
	const maxSideSize = 1 << 20

	// Read the sides that are texts.
	out.Parts = []diff.Part{}
	var texts [3][]byte
	sizes := [3]*int64{&out.BaseSize, &out.OursSize, &out.TheirsSize}

	for i, n := range [3]*tree.Inode{base, ours, theirs} {
		if *sizes[i] = -1; n == nil {
			out.Binary = true
			continue
		}

		if *sizes[i] = n.Size(); !n.IsRegular() || n.Size() > maxSideSize {
			out.Binary = true
		} else if texts[i], err = io.ReadAll(n.Content.Reader(r.source().Files)); err != nil {
			return out, err
		}

		out.Binary = out.Binary || !utf8.Valid(texts[i]) || bytes.IndexByte(texts[i], 0) >= 0
	}
	if out.Binary {
		return out, nil
	}

	// Merge the sides by lines, if the memory suffices.
	release, err := diff.ReserveMergeMemory(ctx, r.budget(TextMemory), texts[:]...)
	if errs.KindOf(err) == errs.TooBig {
		out.Binary = true
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer release()

	if out.Of, err = threeway.Digest(r.source(), digested...); err != nil {
		return out, err
	}

	out.Parts, err = diff.Merge(ctx, texts[0], texts[1], texts[2])
	return out, err
}
