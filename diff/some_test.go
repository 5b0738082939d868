package diff

import "testing"

func TestWithHunks(t *testing.T) {
	before, after := "a\nb\nc\nd", "A\nb\nc\nD\ne\n"
	hunks := []Hunk{{OldStart: 1, OldLines: 1, NewStart: 1, NewLines: 1}, {OldStart: 4, OldLines: 1, NewStart: 4, NewLines: 2}}
	for text, some := range map[string][]Hunk{before: nil, after: hunks, "A\nb\nc\nd": hunks[:1], "a\nb\nc\nD\ne\n": hunks[1:]} {
		if got := string(applyHunks(before, after, some)); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
}
