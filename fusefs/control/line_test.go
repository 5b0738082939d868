package control

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/live"
)

func TestSplitLine(t *testing.T) {
	for _, tc := range []struct{ line, name, message string }{
		{"\n", "", ""},
		{"v1\n", "v1", ""},
		{"v1 before the refactor\n", "v1", "before the refactor"},
		{"  v1\t two  blanks \r\n", "v1", "two  blanks"},
		{"v1\nsubject\n\nbody\n", "v1", "subject\n\nbody"},
	} {
		name, message := splitLine(tc.line)
		if name != tc.name || message != tc.message {
			t.Errorf("splitLine(%q) = %q, %q", tc.line, name, message)
		}
	}
}

func TestSplitFields(t *testing.T) {
	for _, tc := range []struct {
		line string
		want []string
	}{
		{"\n", nil},
		{"v1\n", []string{"v1"}},
		{"v1 a.txt  src/b\n", []string{"v1", "a.txt", "src/b"}},
		{"v1\na\nb\n", []string{"v1", "a", "b"}},
		{`v1 "a file" b\ c ""`, []string{"v1", "a file", "b c", ""}},
		{`v1 a\\b "q\"q"`, []string{"v1", `a\b`, `q"q`}},
	} {
		got, err := splitFields(tc.line)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("splitFields(%q) = %q, %v, want %q", tc.line, got, err, tc.want)
		}
	}
	if _, err := splitFields(`v1 "open`); !errors.Is(err, live.ErrInvalid) {
		t.Errorf("an open quote: %v", err)
	}
}

func TestUnfinished(t *testing.T) {
	line := strings.Repeat("x", 4096)
	for _, tc := range []struct {
		data string
		want bool
	}{
		{"", false},
		{"v1", false},
		{"v1\n", false},
		{line, true},
		{line + line, true},
		{line[1:] + "\n", false},
		{line[1:], false},
		{`{"op":"list"}`, false},
		{`{"op":"list"`, true},
		{`{"op":"list"` + "\n", false}, // wrong
		{`{"op":` + strings.Repeat(" ", 4089) + "\n", true}, // a full buffer that happens to end with a line
		{`{"op":]`, false},
		{`{"op":"` + line[7:], true},
	} {
		if got := unfinished([]byte(tc.data), len(tc.data)); got != tc.want {
			t.Errorf("unfinished(%d bytes) = %v", len(tc.data), got)
		}
	}
}

func TestControlNames(t *testing.T) {
	for name, want := range map[string]bool{
		"create.tmp.1234": true, "restore.tmp": true, "create~": true, ".create.swp": true, "sedAbC123": true,
		".policy.a1b2": true,
		"create":       false, "create.": false, "list.tmp": false, "createx": false, "sedate": false, "notes.txt": false,
		"README~": false,
	} {
		if got := isScratch(name); got != want {
			t.Errorf("isScratch(%q) = %v", name, got)
		}
	}
	for name, want := range map[string]query{
		"diff@v1": {"diff", "v1", ""}, "diff@a..b": {"diff", "a", "b"}, "stat@a.1..b.2": {"stat", "a.1", "b.2"},
		"info@cp-3": {"info", "cp-3", ""},
	} {
		if got, ok := parseQuery(name); !ok || got != want {
			t.Errorf("parseQuery(%q) = %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"diff@", "diff@a..", "diff@..b", "diff", "restore@v1", "v1"} {
		if got, ok := parseQuery(name); ok {
			t.Errorf("parseQuery(%q) = %v", name, got)
		}
	}
	if s, ok := parseRestore("restore@v1"); !ok || s != "v1" {
		t.Errorf("parseRestore: %q, %v", s, ok)
	}
	for _, name := range []string{"restore", "restore@", "create@v1"} {
		if _, ok := parseRestore(name); ok {
			t.Errorf("parseRestore(%q) is one", name)
		}
	}
}
