package diff

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// writeHunks writes the hunks between two texts.
func (w *writer) writeHunks(f File, oldLines, newLines [][]byte, edits []edit) {
	if len(edits) == 0 {
		return
	}
	w.writeNames(f)

	for h := range hunksOf(oldLines, newLines, edits) {
		fmt.Fprintf(w, "@@ -%s +%s @@", hunkRange(h.a0, h.a1), hunkRange(h.b0, h.b1))
		if len(h.section) > 0 {
			fmt.Fprintf(w, " %s", h.section)
		}

		w.WriteByte('\n')
		h.eachRun(w.writeLines)
	}
}

// A hunk has edits that are close enough to share their context. The embedded edit is the range of lines
// with that context, counted from 0: [a0,a1) of the old text and [b0,b1) of the new text.
type hunk struct {
	edit
	edits              []edit
	oldLines, newLines [][]byte // all lines of both texts
	section            []byte   // the heading, see headingFinder
}

// hunksOf yields the hunks between two texts.
func hunksOf(oldLines, newLines [][]byte, edits []edit) iter.Seq[hunk] {
	return func(yield func(hunk) bool) {
		headings := headingFinder{lines: oldLines, last: -1}

		for len(edits) > 0 {
			n := 1
			for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*contextLines {
				n++
			}

			first, last := edits[0], edits[n-1]
			lead, trail := min(contextLines, first.a0), min(contextLines, len(oldLines)-last.a1)
			withContext := edit{first.a0 - lead, last.a1 + trail, first.b0 - lead, last.b1 + trail}
			if !yield(hunk{withContext, edits[:n], oldLines, newLines, headings.headingBefore(withContext.a0)}) {
				return
			}
			edits = edits[n:]
		}
	}
}

// eachRun calls fn for the runs of unchanged, removed and added lines, with the mark of each run. Runs may
// be empty.
func (h hunk) eachRun(fn func(op byte, lines [][]byte)) {
	at := h.a0
	for _, e := range h.edits {
		fn(' ', h.oldLines[at:e.a0])
		fn('-', h.oldLines[e.a0:e.a1])
		fn('+', h.newLines[e.b0:e.b1])
		at = e.a1
	}

	fn(' ', h.oldLines[at:h.a1])
}

// writeNames writes the two lines before the first hunk.
func (w *writer) writeNames(f File) {
	before, after := sideNames(f)
	fmt.Fprintf(w, "--- %s%s\n+++ %s%s\n", before, tabAfter(before), after, tabAfter(after))
}

// tabAfter returns a tab for a name with a space in it, else "". Programs other than git find the end
// of the name by the tab.
func tabAfter(name string) string {
	if strings.Contains(name, " ") {
		return "\t"
	}
	return ""
}

// hunkRange returns the lines [from,to), counted from 0, as "first,count" counted from 1. For an empty
// range, first is the line before it.
func hunkRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

// writeLines writes lines, each after a mark.
func (w *writer) writeLines(mark byte, lines [][]byte) {
	for _, l := range lines {
		w.WriteByte(mark)
		w.Write(l)
		if l[len(l)-1] != '\n' {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// A headingFinder finds the heading of a hunk, which is shown after @@: the last line above the hunk that
// begins like a declaration. It reads each line once.
type headingFinder struct {
	lines [][]byte
	next  int // the first line that was not read
	last  int // the last declaration, -1 if none
}

// headingBefore returns the heading for a hunk that begins at a line. The caller asks for the hunks in order, so line
// never decreases.
func (s *headingFinder) headingBefore(line int) []byte {
	for ; s.next < line; s.next++ {
		if c := s.lines[s.next][0]; c == '_' || c == '$' || 'a' <= c|0x20 && c|0x20 <= 'z' {
			s.last = s.next
		}
	}
	if s.last < 0 {
		return nil
	}

	const maxSection = 80
	l := s.lines[s.last]
	return bytes.TrimRight(l[:min(len(l), maxSection)], " \t\n\v\f\r")
}
