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

// Write writes a unified diff from a to b that `git apply` takes in the
// directory that holds the tree. Nothing is written when the trees are equal.
func Write(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	o = o.withEffort(ctx)
	files, err := list(ctx, src, a, b, o)
	if err != nil {
		return err
	}
	out := &writer{ctx: ctx, Writer: bufio.NewWriterSize(w, 64<<10), src: src, o: o}
	for _, f := range files {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		if err := out.file(f); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the diff: %w", err)
	}
	return nil
}

// writer holds one diff while it is written. Errors of the writer below stick
// in the bufio.Writer and come out at Flush.
type writer struct {
	*bufio.Writer
	ctx context.Context // of this one diff
	src *tree.Source
	o   Options
}

func (w *writer) file(f File) error {
	// git apply knows no change of type, and it misses that a renamed symbolic
	// link leaves room for a directory, because a rename names no mode: the old
	// file is deleted, a new one added.
	if f.Status == Type || f.Status == Renamed && f.After.IsSymlink() {
		gone, come := f, f
		gone.Status, gone.After, gone.Path = Deleted, nil, f.OldPath
		come.Status, come.Before, come.OldPath = Added, nil, f.Path
		if err := w.pair(gone); err != nil {
			return err
		}
		return w.pair(come)
	}
	return w.pair(f)
}

// pair writes the header lines of one file and its change.
func (w *writer) pair(f File) error {
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
		// Files have no target, links no content.
		same, err := f.Before.Content.Equal(w.src.Files, f.After.Content)
		if err != nil {
			return fmt.Errorf("comparing %q: %w", f.Path, err)
		}
		if same && f.Before.Target == f.After.Target {
			return nil
		}
	}
	limit := int64(maxText)
	if w.o.Binary { // git apply checks the result against the ids
		limit = maxPatch
	}
	a, b, err := surveys(w.ctx, w.src, f, limit)
	if err != nil {
		return err
	}
	if a.binary || b.binary {
		return w.binary(f, a.id, b.id)
	}
	w.index(f, a.id[:7], b.id[:7])
	if f.Before == nil || f.After == nil || !w.o.Memory.Holds(cost(a, b)) {
		return w.replaced(f, a, b, "")
	}
	err = w.o.compare(w.ctx, w.src, f, a, b, 1, func(la, lb [][]byte, edits []edit) { w.text(f, la, lb, edits) })
	if errors.Is(err, errTooDifferent) {
		return w.replaced(f, a, b, " too different to compare by lines")
	}
	return err
}

// index writes the line that names both blobs. The mode follows when it is the
// same on both sides.
func (w *writer) index(f File, before, after string) {
	fmt.Fprintf(w, "index %s..%s", before, after)
	if f.Before != nil && f.After != nil && gitMode(f.Before) == gitMode(f.After) {
		fmt.Fprintf(w, " %06o", gitMode(f.After))
	}
	w.WriteByte('\n')
}

// names returns what stands after --- and +++.
func names(f File) (before, after string) {
	before, after = "/dev/null", "/dev/null"
	if f.Before != nil {
		before = gitquote.Name("a/" + f.OldPath)
	}
	if f.After != nil {
		after = gitquote.Name("b/" + f.Path)
	}
	return before, after
}
