package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
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

// conflict returns the present sides of a path in conflict. The sides can change before the user decides. So the
// result has a digest of the sides (Conflicting.Of), and the operations merge and undo-by compare it with the sides
// at the time of the merge.
func (fl *files) conflict(ctx context.Context, r *Request, a Conflict) (out Conflicting, err error) {
	now, release, err := r.Workspace.HoldState("")
	if err != nil {
		return out, err
	}
	defer release()

	ours, err := now.InodeAt(r.source, string(a.Path))
	if err != nil {
		return out, err
	}
	if a.By != "" {
		return fl.undoConflict(ctx, r, a, ours)
	}

	f, err := r.Workspace.Forks().Named(a.Fork)
	if err != nil {
		return out, err
	}

	err = withStates(&Request{Workspace: f}, baseStateName, "", func(from, to *tree.State) error {
		base, baseErr := from.InodeAt(r.source, string(a.Path))
		theirs, err := to.InodeAt(r.source, string(a.Path))
		if err := cmp.Or(baseErr, err); err != nil {
			return err
		}
		if base == nil && ours == nil && theirs == nil {
			return errNoPath(string(a.Path))
		}

		out, err = compareSides(ctx, r, string(a.Path), base, ours, theirs, base, ours, theirs)
		return err
	})

	return out, err
}

// undoConflict returns the sides of a path in conflict in the undo of an actor. ours is the present file.
func (fl *files) undoConflict(ctx context.Context, r *Request, a Conflict, ours *tree.Inode) (out Conflicting, err error) {
	o, err := fl.completeUndoOptions(ctx, r, snapshot.UndoByOptions{Actor: a.By, Since: a.Since, Paths: []naming.BytePath{a.Path}})
	if err != nil {
		return out, err
	}

	err = r.Workspace.Snapshots().VersionsBy(ctx, o, func(asLeft, without *tree.Inode) error {
		out, err = compareSides(ctx, r, string(a.Path), asLeft, ours, without, ours)
		return err
	})
	if errors.Is(err, threeway.ErrConflict) {
		out, err = Conflicting{Binary: true, Parts: []diff.Part{}}, nil
	}

	return out, err
}

// compareSides shows the merge of the versions of a file: base, ours and theirs. A version is nil if the side does not
// have the file. The field Of of the result is the digest of the files in digested.
func compareSides(ctx context.Context, r *Request, path string, base, ours, theirs *tree.Inode, digested ...*tree.Inode) (out Conflicting, err error) {
	const maxShownBytes = 1 << 20
	sizes, size := [3]int64{-1, -1, -1}, int64(0)
	for i, n := range [3]*tree.Inode{base, ours, theirs} {
		if n != nil {
			sizes[i], size = n.Size(), max(size, n.Size())
		}
	}

	out = Conflicting{Binary: true, Parts: []diff.Part{}, BaseSize: sizes[0], OursSize: sizes[1], TheirsSize: sizes[2]}
	if !threeway.CanMergeLines(base, ours, theirs) {
		return out, nil
	}

	hidden := "too large to show"
	lines := diff.Merger{Memory: r.budget(GitMemory)}
	if size <= maxShownBytes {
		lines.Show = func(parts []diff.Part) {
			if hidden = "not UTF-8"; isUTF8(parts) {
				hidden, out.Parts = "", append(out.Parts, parts...)
			}
		}
	}

	src := r.source.Files
	in := threeway.TextInput{Base: base.Content.Reader(src), Ours: ours.Content.Reader(src), Theirs: theirs.Content.Reader(src), Path: path}
	err = gitbridge.MergeConfigs(lines.Merge)(ctx, in, func(m threeway.MergedText) error {
		out.Binary, out.Hidden, out.Clean = false, hidden, m.Clean
		return nil
	})
	if err != nil || out.Binary || out.Hidden != "" {
		return out, err
	}

	out.Of, err = threeway.Digest(r.source, digested...)
	return out, err
}

// isUTF8 reports whether the lines of all parts can be strings in JSON.
func isUTF8(parts []diff.Part) bool {
	return !slices.ContainsFunc(parts, func(p diff.Part) bool {
		return slices.ContainsFunc(slices.Concat(p.Base, p.Ours, p.Theirs), func(line string) bool { return !utf8.ValidString(line) })
	})
}
