package diff

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Stat writes the histogram of `git diff --stat`: changed lines a file and a
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
	width := defaultWidth
	if o.Width > 0 {
		width = o.Width
	}
	writeStat(out, rows, width)
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
		r.name = renameName(f.OldPath, f.Path)
	}
	same := false
	if f.Old != nil && f.New != nil && f.Status != Type {
		var err error
		if same, err = sameData(src, f); err != nil {
			return r, err
		}
	}
	if size(f.Old) > maxText || size(f.New) > maxText {
		r.binary = true
		if !same {
			r.added, r.deleted = size(f.New), size(f.Old)
		}
		return r, nil
	}
	a, b, err := surveys(ctx, src, f)
	if err != nil {
		return r, err
	}
	switch {
	case a.binary || b.binary:
		r.binary = true
		if !same {
			r.added, r.deleted = b.size, a.size
		}
	case same:
	case f.Old == nil || f.New == nil || !o.Memory.Holds(cost(a, b)):
		r.added, r.deleted = int64(b.lines), int64(a.lines)
	default:
		err = o.compare(ctx, src, f, a, b, 1, func(_, _ [][]byte, edits []edit) {
			for _, e := range edits {
				r.deleted += int64(e.a1 - e.a0)
				r.added += int64(e.b1 - e.b0)
			}
		})
		if errors.Is(err, errTooDifferent) {
			r.added, r.deleted, err = int64(b.lines), int64(a.lines), nil
		}
	}
	return r, err
}

// writeStat lays rows out in width columns by the rules of git's show_stats:
// the graph gets at most 3/8 of the line when not everything fits, and a name
// that is too long loses its beginning.
func writeStat(w *bufio.Writer, rows []row, width int) {
	var maxChange int64
	maxName, numberWidth, binWidth := 0, 0, 0
	for _, r := range rows {
		maxName = max(maxName, len(r.name))
		if r.binary {
			binWidth = max(binWidth, 14+digits(r.added)+digits(r.deleted))
			numberWidth = 3
			continue
		}
		maxChange = max(maxChange, r.added+r.deleted)
	}
	numberWidth = max(numberWidth, digits(maxChange))
	width = max(width, 16+6+numberWidth)
	graph := binWidth - 4
	if maxChange+4 > int64(binWidth) {
		graph = int(min(maxChange, int64(width)))
	}
	name := maxName
	if name+numberWidth+6+graph > width {
		graph = min(graph, max(width*3/8-numberWidth-6, 6))
		if name > width-numberWidth-6-graph {
			name = width - numberWidth - 6 - graph
		} else {
			graph = width - numberWidth - 6 - name
		}
	}
	var added, deleted int64
	for _, r := range rows {
		fmt.Fprintf(w, " %-*s | ", name, fit(r.name, name))
		if r.binary {
			fmt.Fprintf(w, "%*s", numberWidth, "Bin")
			if r.added != 0 || r.deleted != 0 {
				fmt.Fprintf(w, " %d -> %d bytes", r.deleted, r.added)
			}
			w.WriteByte('\n')
			continue
		}
		added += r.added
		deleted += r.deleted
		fmt.Fprintf(w, "%*d", numberWidth, r.added+r.deleted)
		if plus, minus := bars(r.added, r.deleted, graph, maxChange); plus+minus > 0 {
			fmt.Fprintf(w, " %s%s", strings.Repeat("+", int(plus)), strings.Repeat("-", int(minus)))
		}
		w.WriteByte('\n')
	}
	writeTotals(w, len(rows), added, deleted)
}

func writeTotals(w *bufio.Writer, files int, added, deleted int64) {
	plural := func(n int64) string {
		if n == 1 {
			return ""
		}
		return "s"
	}
	fmt.Fprintf(w, " %d file%s changed", files, plural(int64(files)))
	if added > 0 || deleted == 0 {
		fmt.Fprintf(w, ", %d insertion%s(+)", added, plural(added))
	}
	if deleted > 0 || added == 0 {
		fmt.Fprintf(w, ", %d deletion%s(-)", deleted, plural(deleted))
	}
	w.WriteByte('\n')
}

// bars scales the counts of one file to the width of the graph; what is not
// zero keeps at least one mark.
func bars(added, deleted int64, width int, maxChange int64) (plus, minus int64) {
	if int64(width) > maxChange {
		return added, deleted
	}
	scale := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return 1 + n*int64(width-1)/maxChange
	}
	total := scale(added + deleted)
	if total < 2 && added > 0 && deleted > 0 {
		total = 2
	}
	if added < deleted {
		plus = scale(added)
		return plus, total - plus
	}
	minus = scale(deleted)
	return total - minus, minus
}

func digits(n int64) int { return len(fmt.Sprint(n)) }

// fit shortens a name from the front, if it can at a slash.
func fit(name string, width int) string {
	if len(name) <= width {
		return name
	}
	tail := name[len(name)-max(width-3, 0):]
	if i := strings.IndexByte(tail, '/'); i >= 0 {
		tail = tail[i:]
	}
	return "..." + tail
}

// renameName joins two paths by what they have in common, as "dir/{a => b}/f".
func renameName(from, to string) string {
	if gitquote.Needed(from) || gitquote.Needed(to) {
		return gitquote.Name(from) + " => " + gitquote.Name(to)
	}
	prefix := 0
	for i := 0; i < len(from) && i < len(to) && from[i] == to[i]; i++ {
		if from[i] == '/' {
			prefix = i + 1
		}
	}
	// The common tail begins with a slash, which may be the one that ends the
	// common head.
	suffix := 0
	head := max(prefix-1, 0)
	for i := 1; len(from)-i >= head && len(to)-i >= head && from[len(from)-i] == to[len(to)-i]; i++ {
		if from[len(from)-i] == '/' {
			suffix = i
		}
	}
	middle := func(s string) string {
		if len(s)-suffix <= prefix {
			return ""
		}
		return s[prefix : len(s)-suffix]
	}
	if prefix == 0 && suffix == 0 {
		return from + " => " + to
	}
	return from[:prefix] + "{" + middle(from) + " => " + middle(to) + "}" + from[len(from)-suffix:]
}
