package page

import (
	"slices"
	"testing"
)

func TestEveryLanguageColours(t *testing.T) {
	for _, l := range lexers().Lexers {
		if _, err := l.Tokenise(nil, "a \"b\" 1 {}\n"); err != nil {
			t.Errorf("%s: %v", l.Config().Name, err)
		}
	}
}

func TestColour(t *testing.T) {
	for path, text := range map[string]string{
		"a/main.go": "package main // c\nvar s = `x` + \"y\" + f(1)\n", "b.py": "def f():\n    return \"x\"\n",
		"c.html": "<script>var x = 1;</script>\n", "Dockerfile": "FROM x\nRUN if true; then ls; fi\n",
		"d.md": "```go\nfunc f() {}\n```\n", "e.yaml": "a: \"b\"\n", "f.php": "<?php echo 1;\n",
	} {
		coloured := slices.ContainsFunc(colour(path, text), func(line []token) bool {
			return slices.ContainsFunc(line, func(t token) bool { return t[0] != "" })
		})
		if !coloured {
			t.Errorf("%s has no colours", path)
		}
	}
}
