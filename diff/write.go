package diff

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Write writes a unified diff from a to b that `git apply` accepts in the root directory of the tree.
// If the trees are equal, it writes nothing.
func Write(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	o = o.withStepBudget(ctx)
	files, err := listFiles(ctx, src, a, b, o)
	if err != nil {
		return err
	}

	out := &writer{ctx: ctx, Writer: bufio.NewWriterSize(w, 64<<10), src: src, opts: o}
	for _, f := range files {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if err := out.writeFile(f); err != nil {
			return err
		}
	}

	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the diff: %w", err)
	}

	return nil
}

// A writer writes one diff. The bufio.Writer keeps the first error of the underlying writer, and Flush returns
// it.
type writer struct {
	*bufio.Writer
	ctx  context.Context // when ctx ends, the diff fails
	src  *tree.Source
	opts Options
}

func (w *writer) writeFile(f File) error {
	// git apply does not support a change of the type. It also does not see that a renamed symbolic link makes room
	// for a directory, because a rename has no mode. Both kinds of change are written as the deletion of the old file
	// and the addition of the new one.
	if f.Status == TypeChanged || f.Status == Renamed && f.After.IsSymlink() {
		deletion, addition := f, f
		deletion.Status, deletion.After, deletion.Path = Deleted, nil, f.OldPath
		addition.Status, addition.Before, addition.OldPath = Added, nil, f.Path
		if err := w.writeChange(deletion); err != nil {
			return err
		}

		return w.writeChange(addition)
	}
	return w.writeChange(f)
}

// writeChange writes the header lines of one file and its change.
func (w *writer) writeChange(f File) error {
	before, after := gitMode(f.Before), gitMode(f.After)
	fmt.Fprintf(w, "diff --git %s %s\n", gitquote.Name("a/"+f.OldPath), gitquote.Name("b/"+f.Path))

	switch {
	case f.Before == nil:
		fmt.Fprintf(w, "new file mode %06o\n", after)
	case f.After == nil:
		fmt.Fprintf(w, "deleted file mode %06o\n", before)
	case before != after:
		fmt.Fprintf(w, "old mode %06o\nnew mode %06o\n", before, after)
	}

	if f.Status == Renamed {
		fmt.Fprintf(w, "similarity index %d%%\nrename from %s\nrename to %s\n",
			f.Similarity, gitquote.Name(f.OldPath), gitquote.Name(f.Path))
	}

	if f.Before != nil && f.After != nil {
		// After a change of the mode alone, no further lines follow.
		same, err := f.Before.Content.Equal(w.src.Files, f.After.Content)
		if err != nil {
			return fmt.Errorf("comparing %q: %w", f.Path, err)
		}
		if same && f.Before.Target == f.After.Target {
			return nil
		}
	}

	limit := int64(maxTextSize)
	if w.opts.Binary { // a binary patch needs the ids of larger files, too
		limit = maxPatchedFileSize
	}

	a, b, err := surveySides(w.ctx, w.src, f, limit)
	if err != nil {
		return err
	}
	if a.binary || b.binary {
		return w.writeBinary(f, a.id, b.id)
	}

	w.writeIndex(f, a.id[:7], b.id[:7])
	if f.Before == nil || f.After == nil || !w.opts.Memory.Fits(comparisonMemory(a, b)) {
		return w.writeReplaced(f, a, b, "")
	}

	err = w.opts.compare(w.ctx, w.src, f, a, b, 1, func(la, lb [][]byte, edits []edit) { w.writeHunks(f, la, lb, edits) })
	if errors.Is(err, errTooDifferent) {
		return w.writeReplaced(f, a, b, " too different to compare by lines")
	}

	return err
}

// writeIndex writes the line with the ids of both blobs and, if both sides have one mode, this mode.
func (w *writer) writeIndex(f File, before, after string) {
	fmt.Fprintf(w, "index %s..%s", before, after)
	if f.Before != nil && f.After != nil && gitMode(f.Before) == gitMode(f.After) {
		fmt.Fprintf(w, " %06o", gitMode(f.After))
	}
	w.WriteByte('\n')
}

// sideNames returns the names of both sides after --- and +++.
func sideNames(f File) (before, after string) {
	before, after = "/dev/null", "/dev/null"
	if f.Before != nil {
		before = gitquote.Name("a/" + f.OldPath)
	}
	if f.After != nil {
		after = gitquote.Name("b/" + f.Path)
	}

	return before, after
}
