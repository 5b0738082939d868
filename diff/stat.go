package diff

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Stat writes a histogram as `git diff --stat` does: the numbers of changed lines of each file, and a
// summary. If the trees are equal, it writes nothing.
func Stat(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	o = o.withStepBudget(ctx)
	files, err := listFiles(ctx, src, a, b, o)
	if err != nil {
		return err
	}

	rows := make([]row, 0, len(files))

	for _, f := range files {
		if err := turns.Yield(ctx); err != nil {
			return err
		}

		r, err := newRow(ctx, src, f, o)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	if len(rows) == 0 {
		return nil
	}

	out := bufio.NewWriter(w)
	writeStat(out, rows, min(max(cmp.Or(o.Width, defaultWidth), minWidth), maxWidth))
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the statistics: %w", err)
	}

	return nil
}

// A row is one file of a histogram. added and deleted are numbers of lines; for a binary file they are
// its sizes in bytes after and before.
type row struct {
	name           string
	added, deleted int64
	binary         bool
}

// newRow returns the row of a file. If its texts cannot be compared, all their lines are changed.
func newRow(ctx context.Context, src *tree.Source, f File, o Options) (row, error) {
	r := row{name: gitquote.Name(f.Path)}
	if f.Status == Renamed {
		r.name = gitquote.Name(f.OldPath) + " => " + r.name
	}
	if max(Size(f.Before), Size(f.After)) > maxTextSize {
		return row{r.name, Size(f.After), Size(f.Before), true}, nil
	}

	a, b, err := surveySides(ctx, src, f, maxTextSize)
	if err != nil {
		return r, err
	}

	r.added, r.deleted = int64(b.lines), int64(a.lines)
	if r.binary = a.binary || b.binary; r.binary {
		r.added, r.deleted = b.size, a.size
	}

	if a.id == b.id && f.Status != TypeChanged {
		r.added, r.deleted = 0, 0
		return r, nil
	}
	if r.binary || f.Before == nil || f.After == nil || !o.Memory.Fits(comparisonMemory(a, b)) {
		return r, nil
	}

	err = o.compare(ctx, src, f, a, b, 1, func(_, _ [][]byte, edits []edit) {
		r.added, r.deleted = 0, 0
		for _, e := range edits {
			r.deleted += int64(e.a1 - e.a0)
			r.added += int64(e.b1 - e.b0)
		}
	})
	if errors.Is(err, errTooDifferent) {
		return r, nil
	}

	return r, err
}

// CountChangedLines calls fn with the numbers of changed lines of each file, by its index in files. It leaves out
// damaged files.
func CountChangedLines(ctx context.Context, src *tree.Source, files []File, o Options, fn func(i int, added, removed int64, binary bool)) error {
	o = o.withStepBudget(ctx)

	for i, f := range files {
		r, err := newRow(ctx, src, f, o)
		if errors.Is(err, errs.Damaged) {
			continue // a damaged file must not hide the other files
		}
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return err
		}

		fn(i, r.added, r.deleted, r.binary)
	}

	return nil
}

// writeStat writes rows in about width columns. The beginning of a name that is too long is cut off.
func writeStat(w *bufio.Writer, rows []row, width int) {
	var maxChanged, added, deleted int64
	nameWidth, numberWidth := 0, 0

	for _, r := range rows {
		nameWidth = max(nameWidth, len(r.name))

		if r.binary {
			numberWidth = len("Bin")
			continue
		}

		maxChanged = max(maxChanged, r.added+r.deleted)
		added += r.added
		deleted += r.deleted
	}

	nameWidth, numberWidth = min(nameWidth, width/2), max(numberWidth, len(fmt.Sprint(maxChanged)))
	graphWidth := int64(max(width-nameWidth-numberWidth-6, 6))
	bar := func(mark string, lines int64) string {
		if lines > 0 && maxChanged > graphWidth {
			lines = 1 + lines*(graphWidth-2)/maxChanged
		}
		return strings.Repeat(mark, int(min(lines, graphWidth)))
	}

	for _, r := range rows {
		if cut := len(r.name) - nameWidth; cut > 0 {
			r.name = "..." + r.name[cut+len("..."):]
		}

		line := fmt.Sprintf(" %-*s | %*s", nameWidth, r.name, numberWidth, "Bin")
		switch {
		case !r.binary:
			line = fmt.Sprintf(" %-*s | %*d %s%s", nameWidth, r.name, numberWidth, r.added+r.deleted, bar("+", r.added), bar("-", r.deleted))
		case r.added != 0 || r.deleted != 0:
			line += fmt.Sprintf(" %d -> %d bytes", r.deleted, r.added)
		}

		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}

	total := plural(int64(len(rows)), "file") + " changed"
	if added > 0 || deleted == 0 {
		total += ", " + plural(added, "insertion") + "(+)"
	}
	if deleted > 0 || added == 0 {
		total += ", " + plural(deleted, "deletion") + "(-)"
	}

	fmt.Fprintln(w, "", total)
}

func plural(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// NameStatus writes a line for each changed file, as `git diff --name-status` does: the letter and the
// path, separated by a tab. For a rename, the similarity follows the letter, and the old path is before
// the new one.
func NameStatus(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	files, err := Files(ctx, src, a, b, o)
	if err != nil {
		return err
	}

	out := bufio.NewWriter(w)
	for _, f := range files {
		fmt.Fprintln(out, f)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing the list of changes: %w", err)
	}

	return nil
}

// String returns f's line in NameStatus.
func (f File) String() string {
	if f.Status == Renamed {
		return fmt.Sprintf("R%03d\t%s\t%s", f.Similarity, gitquote.Name(f.OldPath), gitquote.Name(f.Path))
	}
	return fmt.Sprintf("%c\t%s", f.Status, gitquote.Name(f.Path))
}
