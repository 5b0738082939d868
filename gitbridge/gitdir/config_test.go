package gitdir

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// FuzzConfig: git can read a plain configuration, which has no other settings than the plain ones, and is
// plain already.
func FuzzConfig(f *testing.F) {
	f.Add("[core]\n\tfileMode = true ; x\n[remote \"a b\"] url = https://user:secret@example.org/x\n")
	f.Add("[core]\n\tfsmonitor = /bin/x\n\thooksPath=a\n[include]\n\tpath = /etc/x\n")
	f.Add("[user]name=\"a#b\"\n[core]bare\n[CORE \"x\"]symlinks=\\\nfalse")
	f.Add("[core \"fsmonitor\x00\"]\nfilemode = /bin/x\n[remote \"a\tb\"]\nurl=x\x00y\n[core]\nsymlinks = \"a\rb\"\n")
	f.Fuzz(func(t *testing.T, text string) {
		plain := PlainConfig(text)
		git := exec.Command("git", "config", "--file", "-", "--no-includes", "--name-only", "-z", "--list")
		git.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_NOSYSTEM=1")
		git.Stdin = strings.NewReader(plain)
		out, err := git.CombinedOutput()
		if err != nil {
			t.Fatalf("%q becomes %q, which git cannot read: %s", text, plain, out)
		}

		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			section, rest, _ := strings.Cut(name, ".")
			key := rest[strings.LastIndexByte(rest, '.')+1:]
			if name != "" && !slices.Contains(plainKeys[section], key) {
				t.Errorf("%q becomes %q, which sets %q", text, plain, name)
			}
		}
		if again := PlainConfig(plain); again != plain {
			t.Errorf("%q becomes %q, and then %q", text, plain, again)
		}
	})
}
