package gitdir

import (
	"strings"
	"testing"
)

// FuzzConfig: a plain configuration has no other settings than the plain ones, and is plain already.
func FuzzConfig(f *testing.F) {
	f.Add("[core]\n\tfileMode = true ; x\n[remote \"a b\"] url = https://user:secret@example.org/x\n")
	f.Add("[core]\n\tfsmonitor = /bin/x\n\thooksPath=a\n[include]\n\tpath = /etc/x\n")
	f.Add("[user]name=\"a#b\"\n[core]bare\n[CORE \"x\"]symlinks=\\\nfalse")
	f.Fuzz(func(t *testing.T, text string) {
		plain := PlainConfig(text)
		for line := range strings.Lines(plain) {
			key, _, isSetting := strings.Cut(strings.TrimPrefix(line, "\t"), " = ")
			if strings.HasPrefix(line, "\t") && (!isSetting || strings.TrimSpace(key) == "") {
				t.Errorf("%q has the line %q", plain, line)
			}
		}
		if again := PlainConfig(plain); again != plain {
			t.Errorf("%q becomes %q, and then %q", text, plain, again)
		}
	})
}
