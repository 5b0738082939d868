package page

import (
	"bufio"
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestWindow: readLines returns the same lines as a split of the whole text. The memory that it allocates depends on
// the number of these lines, and not on the size of the text.
func TestWindow(t *testing.T) {
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, "%*d\n", i%7, i)
	}
	for name, text := range map[string]string{
		"large": b.String(), "small": b.String()[:5000], "newlines": strings.Repeat("\n", 2<<20), "few newlines": "\n\n\n",
		"one line": strings.Repeat("x", 2<<20), "without a newline": strings.TrimSuffix(b.String(), "\n"), "empty": "",
	} {
		all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if text == "" {
			all = nil
		}
		for _, from := range []int{0, 1, 500, len(all) - 1, len(all), len(all) + 5} {
			part, err := readLines(bufio.NewReader(strings.NewReader(text)), max(from, 0), 100)
			must.OK(t, err)
			total, got := part.Total, part.Lines
			want := all[min(max(from, 0), len(all)):]
			want = want[:min(100, len(want))]
			same := slices.EqualFunc(got, want, func(a, b string) bool {
				return a == b || len(b) > maxLineBytes && strings.HasPrefix(b, a[:maxLineBytes])
			})
			if total != len(all) || !same {
				t.Errorf("%s from %d: %d lines of %d, not %d of %d", name, from, len(got), total, len(want), len(all))
			}
		}
	}
	text := bufio.NewReader(bytes.NewReader(bytes.Repeat([]byte{'\n'}, 33_000_000)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readLines(text, 1000, 2000)
	must.OK(t, err)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
		t.Errorf("%d bytes of memory for 2,000 lines", took)
	}
}
