package control

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/snapshot/naming"
)

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
	for name, want := range map[string][]string{
		"diff@v1": {"v1"}, "diff@a..b": {"a", "b"}, "stat@a.1..b.2": {"a.1", "b.2"}, "info@cp-3": {"cp-3"},
	} {
		if got, ok := parseQuery(name); !ok || !slices.Equal(got.names, want) || got.String() != name {
			t.Errorf("parseQuery(%q) = %v, %v", name, got, ok)
		}
	}
	for _, name := range []string{"diff@", "diff@a..", "diff@..b", "diff", "info@a..b", "restore@v1", "v1"} {
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

// TestNamesOfControlFiles: no snapshot has the name of a control file.
func TestNamesOfControlFiles(t *testing.T) {
	for _, f := range files {
		if err := naming.Check(f.name); !errors.Is(err, naming.ErrBad) {
			t.Errorf("a snapshot may have the name %q: %v", f.name, err)
		}
	}
}
