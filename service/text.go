package service

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/graft"
)

// A Form is how an operation's result is written as text. Its functions get a pointer to the
// result, or to a string or []events.Event for an operation with such a stream.
type Form struct {
	rows   func(result any) [][]string
	lines  func(args, result any) string
	fields bool // each row is a name and a value
}

// Rows writes rows of columns.
func Rows[R any](rows func(*R) [][]string) Form {
	return Form{rows: func(result any) [][]string { return rows(result.(*R)) }}
}

// Fields writes rows of a name and a value.
func Fields[R any](rows func(*R) [][]string) Form {
	f := Rows(rows)
	f.fields = true
	return f
}

// Lines writes lines, each with its newline.
func Lines[R any](lines func(*R) string) Form {
	return Form{lines: func(_, result any) string { return lines(result.(*R)) }}
}

// LinesOf writes lines about a result and the arguments that led to it.
func LinesOf[A, R any](lines func(A, *R) string) Form {
	return Form{lines: func(args, result any) string { return lines(args.(A), result.(*R)) }}
}

// Text writes the result of a call with arguments, with tabs between columns.
func (f Form) Text(args, result any) string {
	switch {
	case f.lines != nil:
		return f.lines(args, result)
	case f.fields:
		return JoinRows(f.rows(result), ": ")
	}
	return JoinRows(f.rows(result), "\t")
}

// Table returns the rows of a result, and whether they are a name and a value each. It
// returns nil for a form of lines.
func (f Form) Table(result any) (rows [][]string, fields bool) {
	if f.rows == nil {
		return nil, false
	}
	rows = f.rows(result)
	if f.fields {
		for i := range rows {
			rows[i] = []string{rows[i][0] + ":", rows[i][1]}
		}
	}
	return rows, f.fields
}

// Columns writes rows in columns as wide as they need to be.
func Columns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, JoinRows(rows, "\t"))
	w.Flush()
	return b.String()
}

// JoinRows writes one row a line.
func JoinRows(rows [][]string, between string) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(strings.Join(r, between) + "\n")
	}
	return b.String()
}

// Shorten bounds the changed paths in a result. The count beside them stays.
func Shorten(result any, most int) {
	if r, ok := result.(interface{ Shorten(most int) }); ok {
		r.Shorten(most)
	}
}

// Conflicts returns the paths that are in conflict in a result.
func Conflicts(result any) []string {
	if r, ok := result.(interface{ InConflict() []string }); ok {
		return r.InConflict()
	}
	return nil
}

// ChangedText describes what an operation did to an object, or would do, and lists the paths that
// it changed. inGit of the paths are below .git, and not listed.
func ChangedText(did, would string, dry bool, to string, files, all int, paths []graft.PathChange, inGit int) string {
	change := "changed"
	if dry {
		did, change = would, "would change"
	}
	if all == 0 {
		return fmt.Sprintf("%s %s (no files %s)\n", did, to, change)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s (%s %s):\n", did, to, plural(files, "file", "files"), change)
	for _, c := range paths {
		b.WriteString(gitquote.Readable(c.Path) + "\n")
	}
	if more := all - len(paths) - inGit; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if inGit > 0 {
		fmt.Fprintf(&b, "and %d below .git\n", inGit)
	}
	return b.String()
}

// prefixed writes each path on a line behind a text.
func prefixed(text string, paths []string) string {
	var b strings.Builder
	for _, p := range paths {
		b.WriteString(text + gitquote.Readable(p) + "\n")
	}
	return b.String()
}

// OneLine makes a text harmless for a terminal and a column.
func OneLine(s string) string { return gitquote.Shown(lineBreaks.Replace(s), "") }

var lineBreaks = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

// BytesText writes a number of bytes for people.
func BytesText(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }

func plural[N int | int64](n N, one, many string) string { return english.Plural(int(n), one, many) }
