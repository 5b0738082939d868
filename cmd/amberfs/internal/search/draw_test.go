package search

import (
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
)

// TestDrawing: a drawing fits on a terminal of any size. It moves up by as many lines as the previous drawing had.
func TestDrawing(t *testing.T) {
	var all []*Attempt
	for i := range 100 {
		all = append(all, &Attempt{Attempt: i + 1, State: "waiting"})
	}
	draw := func(drawn, width, height int) int {
		t.Helper()
		text, lines := AttemptsText(all, drawn, width, height)
		if up := strings.Count(text, styles.CursorUp); up > height-1 || up > drawn {
			t.Errorf("%d lines up of %d drawn on %d", up, drawn, height)
		}
		if n := strings.Count(text, "\n"); n != lines || n >= height {
			t.Errorf("%d lines, said %d, on a terminal of %d", n, lines, height)
		}
		for row := range strings.Lines(strings.NewReplacer(styles.CursorUp, "", styles.ClearLine, "").Replace(text)) {
			if len(row) > width {
				t.Errorf("%d columns on %d: %q", len(row)-1, width, row)
			}
		}
		if !strings.Contains(text, "waiting") && !strings.Contains(text, "passed") {
			t.Errorf("nothing is counted: %q", text)
		}
		return lines
	}
	drawn := 0
	for i, t := range all {
		t.startedAt, t.State = time.Now(), "running"
		drawn = draw(drawn, 80, 24)
		if i > 40 {
			t.State, t.Seconds = "passed", 1
			drawn = draw(drawn, 21, 5)
		}
	}
	for _, t := range all {
		t.State, t.Seconds = "passed", 1
	}
	drawn = draw(drawn, 80, 24)
	if text, _ := AttemptsText(all, drawn, 80, 24); !strings.Contains(text, "100 passed") {
		t.Errorf("%q", text)
	}
	if got := cutToWidth("aé中bc", 5); got != "aé中"[:len("aé")]+"中" {
		t.Errorf("cut: %q", got)
	}
	all = all[:3]
	if _, lines := AttemptsText(all, 0, 80, 24); lines != 3 {
		t.Errorf("%d lines for 3", lines)
	}
}
