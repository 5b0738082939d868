package diff

import (
	"bytes"
	"cmp"
	"slices"
	"unsafe"
)

// splitLines splits data after each newline. The last line may have none.
func splitLines(data []byte) [][]byte {
	lines := make([][]byte, 0, bytes.Count(data, []byte{'\n'})+1)
	return slices.AppendSeq(lines, bytes.Lines(data))
}

// lineIDs are the numbers of lines, by their text.
type lineIDs map[string]int32

// number returns the number of each line; equal lines have equal numbers. text returns the key of a
// line, which may share the memory of the line.
func (n lineIDs) number(lines [][]byte, text func([]byte) string) []int32 {
	ids := make([]int32, len(lines))

	for i, l := range lines {
		t := text(l)
		id, ok := n[t]
		if !ok {
			id = int32(len(n))
			n[t] = id
		}

		ids[i] = id
	}

	return ids
}

// compareText returns the lines of both sides and the changes between them.
func (e *stepBudget) compareText(a, b []byte) (oldLines, newLines [][]byte, edits []edit, err error) {
	oldLines, newLines = splitLines(a), splitLines(b)
	ids := make(lineIDs, max(len(oldLines), len(newLines)))
	view := func(l []byte) string { return unsafe.String(unsafe.SliceData(l), len(l)) } // safe, because no line is changed
	na, nb := ids.number(oldLines, view), ids.number(newLines, view)
	if edits, err = e.compareLines(na, nb); err != nil {
		return nil, nil, nil, err
	}

	return oldLines, newLines, slideEdits(edits, oldLines, newLines, na, nb), nil
}

// slideEdits moves each pure insertion and each pure deletion to the best of the places that give the same
// result, and joins edits that touch after that. oldLines and newLines are the lines of both sides, na and nb their numbers.
func slideEdits(edits []edit, oldLines, newLines [][]byte, na, nb []int32) []edit {
	var out []edit
	for i := 0; i < len(edits); i++ {
		e := edits[i]
		prevA, nextA := 0, len(na)
		if len(out) > 0 {
			prevA = out[len(out)-1].a1
		}
		if i+1 < len(edits) {
			nextA = edits[i+1].a0
		}

		var lines [][]byte
		var ids []int32
		var start, end int

		switch {
		case e.a0 == e.a1:
			lines, ids, start, end = newLines, nb, e.b0, e.b1
		case e.b0 == e.b1:
			lines, ids, start, end = oldLines, na, e.a0, e.a1
		default:
			out = append(out, e)
			continue
		}

		// The edit can move up by a line if the line above the edit equals the last line of the edit. It can move
		// down if the line below the edit equals the first line of the edit.
		up, down := 0, 0
		for up < e.a0-prevA && ids[start-up-1] == ids[end-up-1] {
			up++
		}
		for down < nextA-e.a1 && ids[start+down] == ids[end+down] {
			down++
		}

		// If the edit can move until it touches the edit above or below, both become one edit, which is moved next.
		switch {
		case up > 0 && up == e.a0-prevA && len(out) > 0:
			last := &out[len(out)-1]
			joined := edit{last.a0, e.a1 - up, last.b0, e.b1 - up}
			out = out[:len(out)-1]
			edits[i] = joined
			i--

		case down > 0 && down == nextA-e.a1 && i+1 < len(edits):
			edits[i+1].a0, edits[i+1].b0 = e.a0+down, e.b0+down
		default:
			shift := bestShift(lines, start, end, up, down)
			out = append(out, edit{e.a0 + shift, e.a1 + shift, e.b0 + shift, e.b1 + shift})
		}
	}

	return out
}

// maxShifts is the maximum number of places that bestShift tries for an edit.
const maxShifts = 100

// bestShift returns the number of lines by which a changed block [start,end) of lines should move down.
// It can move from up lines upwards to down lines downwards. The measure is git's indent heuristic
// (diff.indentHeuristic): both borders should be at blank lines or at little indentation, so that a
// new function is shown from its first line to its last.
func bestShift(lines [][]byte, start, end, up, down int) int {
	best := down
	var bestScore splitScore
	for shift := max(-up, down-maxShifts); shift <= down; shift++ {
		var s splitScore
		s.addSplit(lines, end+shift)
		s.addSplit(lines, start+shift)
		if shift == max(-up, down-maxShifts) || s.compare(bestScore) <= 0 {
			best, bestScore = shift, s
		}
	}

	return best
}

// A splitScore rates the two borders of a block; a smaller score is better. Michael Haggerty found the
// weights for git from a corpus of diffs that people had rated.
type splitScore struct{ indent, penalty int }

func (s splitScore) compare(o splitScore) int {
	const indentWeight = 60
	return indentWeight*cmp.Compare(s.indent, o.indent) + s.penalty - o.penalty
}

// maxBlanks is the maximum number of blank lines above or below a split that count.
const maxBlanks = 20

// addSplit adds the score of a split before lines[next].
func (s *splitScore) addSplit(lines [][]byte, next int) {
	own := -1
	if next < len(lines) {
		own = indentation(lines[next])
	} else {
		s.penalty += 21 // the end of the file
	}

	before, blanksBefore := -1, 0
	for i := next - 1; i >= 0 && blanksBefore < maxBlanks; i-- {
		if before = indentation(lines[i]); before >= 0 {
			break
		}
		blanksBefore++
	}

	after, blanksAfter := -1, 0
	for i := next + 1; i < len(lines) && blanksAfter < maxBlanks; i++ {
		if after = indentation(lines[i]); after >= 0 {
			break
		}
		blanksAfter++
	}

	if before < 0 && blanksBefore == 0 {
		s.penalty++ // the start of the file
	}

	indent := own
	if own < 0 {
		blanksAfter++
		indent = after
	} else {
		blanksAfter = 0
	}

	blanks := blanksBefore + blanksAfter
	s.penalty += -30*blanks + 6*blanksAfter
	s.indent += indent
	addPenalty := func(noBlanks, withBlanks int) {
		if blanks > 0 {
			s.penalty += withBlanks
		} else {
			s.penalty += noBlanks
		}
	}

	switch {
	case indent < 0 || before < 0 || indent == before:
	case indent > before:
		addPenalty(-4, 10)
	case after > indent:
		addPenalty(24, 17) // a line such as "else", between lines that are indented more
	default:
		addPenalty(23, 17)
	}
}

// indentation returns the column of the first character, -1 for a blank line.
func indentation(line []byte) int {
	const maxIndent = 200
	col := 0

	for _, c := range line {
		switch c {
		case ' ':
			col++
		case '\t':
			col += 8 - col%8
		case '\n', '\r', '\v', '\f':
		default:
			return col
		}
		if col >= maxIndent {
			return maxIndent
		}
	}

	return -1
}
