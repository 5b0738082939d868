package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// AttemptsText returns a text with a line for each attempt, and its number of lines. On a terminal the text overwrites the
// text of the previous call, which had oldLines lines. If the terminal has too few lines, only running attempts have a
// line, and the last line counts the attempts by state.
func AttemptsText(attempts []*Attempt, oldLines, width, height int) (text string, lines int) {
	var rows []string
	allFit := len(attempts) < height
	counts := map[string]int{}

	for _, t := range attempts {
		counts[t.State]++
		seconds := t.Seconds
		if seconds == 0 && !t.startedAt.IsZero() {
			seconds = time.Since(t.startedAt).Seconds()
		}
		if allFit || t.Seconds == 0 && !t.startedAt.IsZero() && len(rows) < height-2 {
			rows = append(rows, fmt.Sprintf("%3d  %-8s %6.1fs  %s", t.Attempt, t.State, seconds, gitquote.ReadableName(lastLine(t.log, 0))))
		}
	}

	if !allFit {
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprint(counts[state], " ", state))
		}

		rows = append(rows, strings.Join(parts, ", "))
	}

	var b strings.Builder
	b.WriteString(strings.Repeat(styles.CursorUp, min(oldLines, height-1)))

	for i := range max(len(rows), min(oldLines, height-1)) {
		row := ""
		if i < len(rows) {
			row = cutToWidth(rows[i], width-1)
		}

		b.WriteString(styles.ClearLine + row + "\n")
	}

	return b.String(), max(len(rows), min(oldLines, height-1))
}

// cutToWidth cuts a text to a number of columns. It counts two for each character outside of ASCII.
func cutToWidth(text string, columns int) string {
	for i, r := range text {
		if columns--; r >= utf8.RuneSelf {
			columns--
		}
		if columns < 0 {
			return text[:i]
		}
	}
	return text
}
