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

// A Form writes the result of an operation as text. Its functions get a pointer to the result. For an
// operation with a stream they get a *string with the text, or a *[]events.Event.
type Form struct {
	rows          func(result any) [][]string
	lines         func(args, result any) string
	rowsAreFields bool // each row is a name and a value
	IsLong        bool // the text can be long
}

// markLong returns the form with IsLong set.
func (f Form) markLong() Form { f.IsLong = true; return f }

// Rows returns a Form that writes rows of columns.
func Rows[R any](rows func(*R) [][]string) Form {
	return Form{rows: func(result any) [][]string { return rows(result.(*R)) }}
}

// Fields returns a Form that writes rows of a name and a value.
func Fields[R any](rows func(*R) [][]string) Form {
	return Form{rows: Rows(rows).rows, rowsAreFields: true}
}

// Lines returns a Form with a function that writes a result as lines of text. Each line ends in a newline.
func Lines[R any](lines func(*R) string) Form {
	return Form{lines: func(_, result any) string { return lines(result.(*R)) }}
}

// LinesOf does what Lines does, for a function that also gets the arguments of the call.
func LinesOf[A, R any](lines func(A, *R) string) Form {
	return Form{lines: func(args, result any) string { return lines(args.(A), result.(*R)) }}
}

// Text returns the result of a call as text, with tabs between columns. args are the arguments of the call.
func (f Form) Text(args, result any) string {
	switch {
	case f.lines != nil:
		return f.lines(args, result)
	case f.rowsAreFields:
		return JoinRows(f.rows(result), ": ")
	}
	return JoinRows(f.rows(result), "\t")
}

// Table returns the rows of a result, nil for a Form of lines. fields is true if each row is a name and a value.
func (f Form) Table(result any) (rows [][]string, fields bool) {
	if f.rows == nil {
		return nil, false
	}
	rows = f.rows(result)
	if f.rowsAreFields {
		for i := range rows {
			rows[i] = []string{rows[i][0] + ":", rows[i][1]}
		}
	}

	return rows, f.rowsAreFields
}

// AlignColumns returns rows as lines of a text with aligned columns.
func AlignColumns(rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, JoinRows(rows, "\t"))
	w.Flush()
	return b.String()
}

// JoinRows returns each row as a line of a text. The parameter between is the text between two columns.
func JoinRows(rows [][]string, between string) string {
	return joinTexts(rows, func(r []string) string { return strings.Join(r, between) + "\n" })
}

// Shorten removes changed paths from the list in a result, so that the list has at most maxPaths paths. The result
// still has the number of all changed paths.
func Shorten(result any, maxPaths int) {
	if r, ok := result.(interface{ Shorten(maxPaths int) }); ok {
		r.Shorten(maxPaths)
	}
}

// Conflicts returns the conflicting paths in a result.
func Conflicts(result any) []string {
	if r, ok := result.(interface{ ConflictPaths() []string }); ok {
		return r.ConflictPaths()
	}
	return nil
}

// ChangedText describes the effect of an operation. The text begins with a verb and its object. Its parameters are:
//
//   - did: the verb, such as "restored";
//   - would: the verb for a dry run, such as "would restore";
//   - to: the object, such as "snapshot v1";
//   - files: the number of changed files;
//   - paths: the list of changed paths, which may be cut off, and has no paths below .git;
//   - inGit: the number of changed paths below .git;
//   - all: the number of all changed paths, also those that are not in the list.
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
		b.WriteString(gitquote.ReadableName(c.Path) + "\n")
	}
	if more := all - len(paths) - inGit; more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if inGit > 0 {
		fmt.Fprintf(&b, "and %d below .git\n", inGit)
	}

	return b.String()
}

// prefixedLines returns a line for each path. Each line begins with text.
func prefixedLines(text string, paths []string) string {
	return joinTexts(paths, func(p string) string { return text + gitquote.ReadableName(p) + "\n" })
}

// OneLine replaces line breaks and tabs by blanks, and escapes control characters for a terminal.
func OneLine(s string) string { return gitquote.EscapeControls(lineBreakReplacer.Replace(s), "") }

var lineBreakReplacer = strings.NewReplacer("\n", " ", "\t", " ", "\r", " ")

// BytesText writes a number of bytes with a binary unit, such as 12 KiB.
func BytesText(bytes int64) string { return humanize.IBytes(uint64(max(bytes, 0))) }

// plural returns a number, with commas, and its noun. The parameter one is the noun for the number 1, and many is the
// noun for other numbers.
func plural[N int | int64](n N, one, many string) string { return english.Plural(int(n), one, many) }
