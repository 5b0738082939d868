package gitquote

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/amberfs/amberfs/tests/must"
)

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"plain \\ \"text\" äöü 日本": "plain \\ \"text\" äöü 日本",
		"\x1b]0;title\x07":         `\033]0;title\a`,
		"c1 \u009b31m":             `c1 \302\23331m`,
		"bidi \u202ecba\u2066":     `bidi \342\200\256cba\342\201\246`,
		"no \xff UTF-8":            `no \377 UTF-8`,
		"two\nlines\r":             "two\nlines" + `\r`,
		"line\u2028separator\x7f":  `line\342\200\250separator\177`,
	} {
		if got := EscapeControls(text, "\n"); got != want {
			t.Errorf("%q is shown as %q", text, got)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add("\x1b[31m\u202e\u009b\xff")
	f.Fuzz(func(t *testing.T, text string) {
		got := EscapeControls(text, "")
		if !utf8.ValidString(got) {
			t.Errorf("%q is no UTF-8", got)
		}
		for _, r := range got {
			if isControl(r) {
				t.Errorf("%q has %q", got, r)
			}
		}
		doc, err := json.Marshal(text)
		must.OK(t, err)
		var before, after string
		if json.Unmarshal(doc, &before) != nil || json.Unmarshal(EscapeJSON(doc), &after) != nil || before != after {
			t.Errorf("%q becomes %q", before, after)
		}
	})
}
