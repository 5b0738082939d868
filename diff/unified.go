package diff

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// text writes the hunks between two texts.
func (w *writer) text(f File, la, lb [][]byte, edits []edit) {
	if len(edits) == 0 {
		return
	}
	w.heads(f)
	for h := range hunksOf(la, lb, edits) {
		fmt.Fprintf(w, "@@ -%s +%s @@", hunkRange(h.a0, h.a1), hunkRange(h.b0, h.b1))
		if len(h.section) > 0 {
			fmt.Fprintf(w, " %s", h.section)
		}
		w.WriteByte('\n')
		h.each(w.lines)
	}
}

// A hunk is edits that are close enough to share their context, and the lines that it
// covers with that, counted from 0: [a0,a1) of the old text, [b0,b1) of the new one.
type hunk struct {
	edit
	edits   []edit
	la, lb  [][]byte
	section []byte
}

// hunksOf yields the hunks between two texts.
func hunksOf(la, lb [][]byte, edits []edit) iter.Seq[hunk] {
	return func(yield func(hunk) bool) {
		section := sections{lines: la, last: -1}
		for len(edits) > 0 {
			n := 1
			for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*contextLines {
				n++
			}
			first, last := edits[0], edits[n-1]
			lead, trail := min(contextLines, first.a0), min(contextLines, len(la)-last.a1)
			around := edit{first.a0 - lead, last.a1 + trail, first.b0 - lead, last.b1 + trail}
			if !yield(hunk{around, edits[:n], la, lb, section.before(around.a0)}) {
				return
			}
			edits = edits[n:]
		}
	}
}

// each calls fn for the runs of lines that are as they were, that went, and that came.
func (h hunk) each(fn func(op byte, lines [][]byte)) {
	at := h.a0
	for _, e := range h.edits {
		fn(' ', h.la[at:e.a0])
		fn('-', h.la[e.a0:e.a1])
		fn('+', h.lb[e.b0:e.b1])
		at = e.a1
	}
	fn(' ', h.la[at:h.a1])
}

// heads writes the two lines before the first hunk.
func (w *writer) heads(f File) {
	before, after := names(f)
	fmt.Fprintf(w, "--- %s%s\n+++ %s%s\n", before, tabAfter(before), after, tabAfter(after))
}

// tabAfter is the tab by which programs other than git find the end of a name with a
// space in it.
func tabAfter(name string) string {
	if strings.Contains(name, " ") {
		return "\t"
	}
	return ""
}

// hunkRange writes lines [from,to), counted from 0, as "first,count". An empty
// range names the line before it.
func hunkRange(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprint(from + 1)
	}
	return fmt.Sprintf("%d,%d", from+1, to-from)
}

func (w *writer) lines(mark byte, lines [][]byte) {
	for _, l := range lines {
		w.WriteByte(mark)
		w.Write(l)
		if l[len(l)-1] != '\n' {
			w.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

// sections finds the line to show after @@: the last one above the hunk that
// begins like a declaration. Each line is looked at once.
type sections struct {
	lines [][]byte
	next  int // first line not looked at
	last  int // latest declaration, -1 if none
}

func (s *sections) before(line int) []byte {
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
