package gitquote

import (
	"os/exec"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for name, want := range map[string][2]string{
		"":                {"", ""},
		"plain name":      {"plain name", "plain name"},
		"tab\there":       {`"tab\there"`, `"tab\there"`},
		`quo"te`:          {`"quo\"te"`, `"quo\"te"`},
		`back\slash`:      {`"back\\slash"`, `"back\\slash"`},
		"caf\xc3\xa9":     {`"caf\303\251"`, "caf\xc3\xa9"},
		"\xff":            {`"\377"`, `"\377"`},
		"\x01\x7f":        {`"\001\177"`, `"\001\177"`},
		"a\u202eb":        {`"a\342\200\256b"`, `"a\342\200\256b"`},
		"c1\u0085":        {`"c1\302\205"`, `"c1\302\205"`},
		"\u65e5\u672c":    {`"\346\227\245\346\234\254"`, "\u65e5\u672c"},
		"\x1b[31mred\r\n": {`"\033[31mred\r\n"`, `"\033[31mred\r\n"`},
	} {
		if got := Name(name); got != want[0] {
			t.Errorf("Name(%q) is %s, want %s", name, got, want[0])
		}
		if got := ReadableName(name); got != want[1] {
			t.Errorf("Readable(%q) is %s, want %s", name, got, want[1])
		}
	}
}

// TestGitQuotesTheSame compares Name with git, for every byte.
func TestGitQuotesTheSame(t *testing.T) {
	repo := t.TempDir()
	git := func(in string, args ...string) string {
		cmd := exec.Command("git", append([]string{"-C", repo, "--git-dir=" + repo}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("git %v: %v", args, err)
		}
		return string(out)
	}
	git("", "init", "-q", "--bare")
	id := strings.TrimSpace(git("", "hash-object", "-w", "--stdin"))
	for c := 1; c < 256; c++ {
		name := "a" + string([]byte{byte(c)}) + "b"
		if c == '/' {
			continue
		}
		tree := strings.TrimSpace(git("100644 blob "+id+"\t"+name+"\x00", "mktree", "-z"))
		if got, want := Name(name)+"\n", git("", "ls-tree", "--name-only", tree); got != want {
			t.Errorf("%q: %q, git writes %q", name, got, want)
		}
	}
}
