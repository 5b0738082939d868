package service

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot"
)

func TestParseCreate(t *testing.T) {
	for _, tc := range []struct{ line, name, message string }{
		{"\n", "", ""},
		{"v1\n", "v1", ""},
		{"v1 before the refactor\n", "v1", "before the refactor"},
		{"  v1\t two  blanks \r\n", "v1", "two  blanks"},
		{"v1\nsubject\n\nbody\n", "v1", "subject\n\nbody"},
	} {
		got, err := parseCreate(tc.line)
		if a, ok := got.(snapshot.CaptureOptions); err != nil || !ok || a.Name != tc.name || a.Message != tc.message {
			t.Errorf("parseCreate(%q) = %+v, %v", tc.line, got, err)
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
	if _, err := splitFields(`v1 "open`); !errors.Is(err, errs.Invalid) {
		t.Errorf("an open quote: %v", err)
	}
}

// FuzzFields: splitFields returns the words that were quoted.
func FuzzFields(f *testing.F) {
	f.Add("v1", "a b", "")
	f.Add(`a"b`, `c\d`, "e\tf\n")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		words := []string{a, b, c}
		var line strings.Builder
		for _, w := range words {
			line.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w) + `"`)
		}

		got, err := splitFields(line.String())
		if err != nil || !slices.Equal(got, words) {
			t.Errorf("%q was written as %s, and read as %q, %v", words, line.String(), got, err)
		}
	})
}
