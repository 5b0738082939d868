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

// Stat writes a histogram as `git diff --stat` does: changed lines a file and a
// summary. Nothing is written when the trees are equal.
func Stat(ctx context.Context, w io.Writer, src *tree.Source, a, b *tree.State, o Options) error {
	o = o.withEffort(ctx)
	files, err := list(ctx, src, a, b, o)
	if err != nil {
		return err
	}
	rows := make([]row, 0, len(files))
	for _, f := range files {
		if err := turns.Yield(ctx); err != nil {
			return err
		}
		r, err := count(ctx, src, f, o)
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

// row is one file: lines added and deleted, or, of a binary file, the bytes
// after and before.
type row struct {
	name           string
	added, deleted int64
	binary         bool
}

func count(ctx context.Context, src *tree.Source, f File, o Options) (row, error) {
	r := row{name: gitquote.Name(f.Path)}
	if f.Status == Renamed {
		r.name = gitquote.Name(f.OldPath) + " => " + r.name
	}
	if max(Size(f.Before), Size(f.After)) > maxText {
		return row{r.name, Size(f.After), Size(f.Before), true}, nil
	}
	a, b, err := surveys(ctx, src, f, maxText)
	if err != nil {
		return r, err
	}
	r.added, r.deleted = int64(b.lines), int64(a.lines)
	if r.binary = a.binary || b.binary; r.binary {
		r.added, r.deleted = b.size, a.size
	}
	switch {
	case a.id == b.id && f.Status != Type:
		r.added, r.deleted = 0, 0
	case r.binary, f.Before == nil, f.After == nil, !o.Memory.Holds(cost(a, b)):
	default:
		err = o.compare(ctx, src, f, a, b, 1, func(_, _ [][]byte, edits []edit) {
			r.added, r.deleted = 0, 0
			for _, e := range edits {
				r.deleted += int64(e.a1 - e.a0)
				r.added += int64(e.b1 - e.b0)
			}
		})
		if errors.Is(err, errTooDifferent) {
			err = nil
		}
	}
	return r, err
}

// Lines calls fn with the changed lines of each file, but damaged ones.
func Lines(ctx context.Context, src *tree.Source, files []File, o Options, fn func(i int, added, removed int64, binary bool)) error {
	o = o.withEffort(ctx)
	for i, f := range files {
		r, err := count(ctx, src, f, o)
		if errors.Is(err, errs.Damaged) {
			continue // one must not hide the others
		}
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return err
		}
		fn(i, r.added, r.deleted, r.binary)
	}
	return nil
}

// writeStat lays rows out in about width columns. A name that is too long loses its
// beginning.
func writeStat(w *bufio.Writer, rows []row, width int) {
	var most, added, deleted int64
	name, number := 0, 0
	for _, r := range rows {
		name = max(name, len(r.name))
		if r.binary {
			number = len("Bin")
			continue
		}
		most = max(most, r.added+r.deleted)
		added += r.added
		deleted += r.deleted
	}
	name, number = min(name, width/2), max(number, len(fmt.Sprint(most)))
	graph := int64(max(width-name-number-6, 6))
	bar := func(mark string, lines int64) string {
		if lines > 0 && most > graph {
			lines = 1 + lines*(graph-2)/most
		}
		return strings.Repeat(mark, int(min(lines, graph)))
	}
	for _, r := range rows {
		if cut := len(r.name) - name; cut > 0 {
			r.name = "..." + r.name[cut+len("..."):]
		}
		line := fmt.Sprintf(" %-*s | %*s", name, r.name, number, "Bin")
		switch {
		case !r.binary:
			line = fmt.Sprintf(" %-*s | %*d %s%s", name, r.name, number, r.added+r.deleted, bar("+", r.added), bar("-", r.deleted))
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

func plural(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// NameStatus writes a line for each changed file, as `git diff --name-status`:
// the letter, for a rename its similarity and the old path, and the path,
// separated by tabs.
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

// String is f's line in NameStatus.
func (f File) String() string {
	if f.Status == Renamed {
		return fmt.Sprintf("R%03d\t%s\t%s", f.Similarity, gitquote.Name(f.OldPath), gitquote.Name(f.Path))
	}
	return fmt.Sprintf("%c\t%s", f.Status, gitquote.Name(f.Path))
}
