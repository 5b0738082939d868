package diff

import (
	"bytes"
	"fmt"
	"iter"
	"strings"
)

// text writes the hunks between two texts.
func (w *writer) text(f File, a, b []byte) {
	la, lb, edits := compareText(a, b)
	if len(edits) == 0 {
		return
	}
	w.heads(f)
	context := w.o.context()
	section := sections{lines: la, last: -1}
	for near := range groups(edits, context) {
		w.hunk(near, la, lb, context, &section)
	}
}

// groups yields the runs of edits that are close enough to share their context.
func groups(edits []edit, context int) iter.Seq[[]edit] {
	return func(yield func([]edit) bool) {
		for len(edits) > 0 {
			n := 1
			for n < len(edits) && edits[n].a0-edits[n-1].a1 <= 2*context {
				n++
			}
			if !yield(edits[:n]) {
				return
			}
			edits = edits[n:]
		}
	}
}

// heads writes the two lines before the first hunk.
func (w *writer) heads(f File) {
	before, after := names(f)
	fmt.Fprintf(w, "--- %s%s\n+++ %s%s\n", before, tabAfter(before), after, tabAfter(after))
}

// tabAfter is the tab that tells programs other than git where a name with a
// space in it ends.
func tabAfter(name string) string {
	if strings.Contains(name, " ") {
		return "\t"
	}
	return ""
}

// hunk writes edits that are close enough to share their context.
func (w *writer) hunk(edits []edit, la, lb [][]byte, context int, section *sections) {
	first, last := edits[0], edits[len(edits)-1]
	lead := min(context, first.a0)
	trail := min(context, len(la)-last.a1)
	a0, b0 := first.a0-lead, first.b0-lead
	fmt.Fprintf(w, "@@ -%s +%s @@", hunkRange(a0, last.a1+trail), hunkRange(b0, last.b1+trail))
	if s := section.before(a0); len(s) > 0 {
		fmt.Fprintf(w, " %s", s)
	}
	w.WriteByte('\n')
	at := a0
	for _, e := range edits {
		w.lines(' ', la[at:e.a0])
		w.lines('-', la[e.a0:e.a1])
		w.lines('+', lb[e.b0:e.b1])
		w.sum.Deleted += e.a1 - e.a0
		w.sum.Added += e.b1 - e.b0
		at = e.a1
	}
	w.lines(' ', la[at:at+trail])
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
