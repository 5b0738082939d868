package page

import (
	"slices"
	"strings"
	"testing"
)

// The pieces together are the text, and comments, strings, numbers and keywords have
// their classes.
func TestColour(t *testing.T) {
	for _, c := range []struct{ path, text, want string }{
		{"a/main.go", "package main // it's\nvar s = `x\ny` + \"a\\\"b\" + f(1, 0x2f, v2)\n", "k:package c:// it's k:var s:`x s:y` s:\"a\\\"b\" n:1 n:0x2f"},
		{"b.py", "def f(): # don't\n    return '''a\nb'''\n", "k:def c:# don't k:return s:'''a s:b'''"},
		{"c.html", "<!-- a\nb --><p class=\"x\">it's</p>", "c:<!-- a c:b --> s:\"x\""},
		{"Dockerfile", "FROM x # y\n", "c:# y"},
		{"e.yaml", "a: \"b\" # c\nn: 12\n", "s:\"b\" c:# c n:12"},
		{"x.sql", "SELECT a -- b\n", "k:SELECT c:-- b"},
		{"x.js", "/* never closed\nlet", "c:/* never closed c:let"},
		{"utf8.go", "ärger := \"ü\" // ö\nif é {\n}\n", "s:\"ü\" c:// ö k:if"},
		{"none.bin", "package main", ""},
		{"empty.go", "", ""},
	} {
		var got, whole []string
		for _, line := range colour(c.path, c.text) {
			var b strings.Builder
			for _, piece := range line {
				b.WriteString(piece[1])
				if piece[0] != "" {
					got = append(got, piece[0]+":"+piece[1])
				}
			}
			whole = append(whole, b.String())
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
		want := strings.Split(strings.TrimSuffix(c.text, "\n"), "\n")
		if c.text == "" {
			want = nil
		}
		if !slices.Equal(whole, want) {
			t.Errorf("%s: the lines are %q, want %q", c.path, whole, want)
		}
	}
}

func FuzzTokens(f *testing.F) {
	f.Add("a.go", "x \"a\nb /* c")
	f.Add("a.py", "\xff'''é")
	f.Fuzz(func(t *testing.T, name, text string) {
		l := languageOf(name)
		if l == nil {
			l = golang
		}
		var b strings.Builder
		l.tokens(text, func(_, part string) { b.WriteString(part) })
		if b.String() != text {
			t.Errorf("%q came out as %q", text, b.String())
		}
	})
}
