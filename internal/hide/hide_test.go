package hide

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// TestLikeGit: a pattern hides the same paths that git ignores by it.
func TestLikeGit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) *exec.Cmd {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none")
		return cmd
	}
	must.OK(t, git("init", "-q").Run())

	files := []string{
		".env", "a/.env", "a/b/.env", ".env.local", "key.pem", "a/key.pem", "a/b/key.pub", "a/secrets/x", "secrets/x", "secrets/y/z",
		"id_rsa", "a/id_ed25519", "with space", "ab", "[x]", "x", "!not", "#hash", "a/b/c/d/e", "foo/bar", "a/foo/bar", "doc/x.txt", "doc/y/x.txt", `back\slash`, "end ",
	}
	for _, f := range files {
		must.OK(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(f)), 0o755))
		must.OK(t, os.WriteFile(filepath.Join(dir, f), nil, 0o644))
	}

	for _, lines := range [][]string{
		{".env"}, {"/.env"}, {"a/.env"}, {"*.pem"}, {"id_*"}, {"secrets/"}, {"secrets"}, {"/secrets/"}, {"secrets/*", "!secrets/x"}, {"*.p??"}, {"key.p[eu]*"}, {"key.p[!e]*"},
		{"a/**"}, {"**/b"}, {"a/**/e"}, {"**/foo/bar"}, {"foo/bar"}, {"doc/*.txt"}, {"doc/**/*.txt"}, {`\[x\]`}, {"[x]"}, {`\!not`}, {`\#hash`}, {"#hash"}, {"with space   "}, {`end\ `},
		{".env*", "!.env.local"}, {"!.env"}, {"*", "!a"}, {"", "   "}, {"x\r"}, {`back\\slash`}, {"a*"}, {"x", "!x/"}, {"**"}, {"a/b/"},
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte(strings.Join(lines, "\n")+"\n"), 0o644))
		m, err := New(lines)
		must.OK(t, err)

		var moved []string
		for _, line := range lines {
			moved = append(moved, ToRoot("x [y]", line))
		}
		below, err := New(moved)
		must.OK(t, err)

		cmd := git("check-ignore", "-z", "--no-index", "--stdin")
		cmd.Stdin = strings.NewReader(strings.Join(files, "\x00") + "\x00")
		out, _ := cmd.Output() // it fails if no path is ignored
		ignored := make(map[string]bool)
		for name := range strings.SplitSeq(string(out), "\x00") {
			ignored[name] = true
		}

		for _, f := range files {
			if got := m.Hides(f, false); got != ignored[f] {
				t.Errorf("%q hides %q: %v, git ignores it: %v", lines, f, got, ignored[f])
			}
			if got := below.Hides("x [y]/"+f, false); got != ignored[f] || below.Hides(f, false) {
				t.Errorf("%q hides %q below a directory: %v, git ignores it: %v", moved, f, got, ignored[f])
			}
		}
	}
}

func TestLiteral(t *testing.T) {
	for _, name := range []string{".env", "a/b c", "*", "[x]", `back\slash`, "!x", "#x", "x ", "a/?"} {
		m, err := New([]string{Literal(name)})
		must.OK(t, err)
		if !m.Match(name, false) || m.Match(name+"x", false) || m.Match("a/"+name, false) {
			t.Errorf("the pattern %q of %q", Literal(name), name)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, line := range []string{"[", "/", "../x", "a//b", ".", "./x", "[[:alpha:]]", "a\x00"} {
		if m, err := New([]string{line}); err == nil {
			t.Errorf("%q is %v", line, m)
		}
	}
}

// TestManyAnyNames: the time of a comparison does not grow exponentially with the number of "**" in the pattern.
// Otherwise this test would not end.
func TestManyAnyNames(t *testing.T) {
	m, err := New([]string{strings.Repeat("**/a/", 40) + "b"})
	must.OK(t, err)
	if name := strings.Repeat("a/", 1000); m.Match(name+"c", false) || !m.Match(name+"b", false) {
		t.Error("it matches by another name than the last")
	}
}
