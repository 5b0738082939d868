package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/diff"
)

// TestPartsOfADiff: the parts of a diff together have all lines of the diff, whatever the lengths of its hunks.
func TestPartsOfADiff(t *testing.T) {
	for _, lengths := range [][]int{{}, {1}, {maxHunkLines}, {maxHunkLines + 1}, {10, 3 * maxHunkLines, 5}, {maxHunkLines, maxHunkLines}, {700, 700, 700, 700}} {
		var hunks []diff.Hunk
		var all []string
		start := 1
		for _, n := range lengths {
			h := diff.Hunk{OldStart: start, NewStart: start, OldLines: n, NewLines: n}
			for i := range n {
				h.Lines = append(h.Lines, diff.Line{Op: " ", Text: fmt.Sprint(start + i)})
				all = append(all, fmt.Sprint(start+i))
			}
			start += n + 10
			hunks = append(hunks, h)
		}
		var got []string
		for cursor := 0; ; {
			part, next := sliceHunks(hunks, 0, cursor, maxHunkLines)
			lines := 0
			for _, h := range part {
				lines += len(h.Lines)
				if len(h.Lines) != h.OldLines || h.Lines[0].Text != fmt.Sprint(h.OldStart) || h.NewStart != h.OldStart {
					t.Fatalf("%v: a hunk at %d of %d lines begins with line %s and has %d", lengths, h.OldStart, h.OldLines, h.Lines[0].Text, len(h.Lines))
				}
				for _, l := range h.Lines {
					got = append(got, l.Text)
				}
			}
			if lines > maxHunkLines {
				t.Fatalf("%v: a part has %d lines", lengths, lines)
			}
			if next == 0 {
				break
			}
			cursor = next
		}
		if strings.Join(got, " ") != strings.Join(all, " ") {
			t.Errorf("%v: the parts have %d lines, want %d", lengths, len(got), len(all))
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	h := diff.Hunk{OldStart: 1, NewStart: 1, Lines: []diff.Line{{Op: "+", Text: strings.Repeat("é", 1<<20)}}}
	part, _ := sliceHunks([]diff.Hunk{h}, 0, 0, maxHunkLines)
	if text := part[0].Lines[0].Text; len(text) > maxLineBytes+8 || !strings.HasSuffix(text, "é …") {
		t.Errorf("a line of 2 MiB is shown in %d bytes, ending in %q", len(text), text[len(text)-8:])
	}
}
