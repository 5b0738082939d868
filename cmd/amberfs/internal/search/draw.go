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

// Drawing returns a text with a line for each attempt, and its number of lines. On a terminal the text overwrites the
// lines of the previous call: drawn is their number. If the terminal has too few lines, only running attempts have a line, and the last
// line counts the attempts by state.
func Drawing(all []*Attempt, drawn, width, height int) (text string, lines int) {
	var rows []string
	fits := len(all) < height
	counts := map[string]int{}

	for _, t := range all {
		counts[t.State]++
		took := t.Seconds
		if took == 0 && !t.began.IsZero() {
			took = time.Since(t.began).Seconds()
		}
		if fits || t.Seconds == 0 && !t.began.IsZero() && len(rows) < height-2 {
			rows = append(rows, fmt.Sprintf("%3d  %-8s %6.1fs  %s", t.Attempt, t.State, took, gitquote.Readable(lastLine(t.log, 0))))
		}
	}

	if !fits {
		var parts []string
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			parts = append(parts, fmt.Sprint(counts[state], " ", state))
		}

		rows = append(rows, strings.Join(parts, ", "))
	}

	var b strings.Builder
	b.WriteString(strings.Repeat(styles.LineUp, min(drawn, height-1)))

	for i := range max(len(rows), min(drawn, height-1)) {
		row := ""
		if i < len(rows) {
			row = shortened(rows[i], width-1)
		}

		b.WriteString(styles.LineClear + row + "\n")
	}

	return b.String(), max(len(rows), min(drawn, height-1))
}

// shortened cuts a text to a number of columns. It counts two for each character outside of ASCII.
func shortened(text string, columns int) string {
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
