package control

import (
	"encoding/json"
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
		if got := isUnfinished([]byte(tc.data), len(tc.data)); got != tc.want {
			t.Errorf("isUnfinished(%d bytes) = %v", len(tc.data), got)
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

// FuzzPieces: a command that a program writes through a buffer is complete with its last word or its last
// brace, and not before.
func FuzzPieces(f *testing.F) {
	f.Add("v1 a message", 0)
	f.Add(strings.Repeat("m", 1024-len(`{"message":""}`)), 0)
	f.Add(strings.Repeat("word ", 2000), 1)
	f.Add(strings.Repeat("{\"\n", 1000), 3)
	f.Fuzz(func(t *testing.T, text string, blocks int) {
		object, err := json.Marshal(map[string]string{"message": text})
		if err != nil {
			t.Fatal(err)
		}
		words := "v1" + strings.ReplaceAll(text, "\n", " ") + "\n"

		for line, complete := range map[string]int{string(object): len(object), string(object) + "\n": len(object), words: len(words)} {
			size, written := 1024*(1+blocks&7), 0
			for piece := range slices.Chunk([]byte(line), size) {
				written += len(piece)
				if isUnfinished([]byte(line[:written]), len(piece)) == (written >= complete) {
					t.Errorf("%q: %d of %d bytes in pieces of %d are finished: %v", line, written, len(line), size, written < complete)
				}
			}
		}
	})
}

// FuzzQuery: the name of a control file is read as it is written.
func FuzzQuery(f *testing.F) {
	for _, name := range []string{"diff@v1", "diff@a..b", "info@cp-3", "stat@..", "restore@v1", "diff@a...b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		q, ok := parseQuery(name)
		if ok && (q.String() != name || slices.Contains(q.names, "")) {
			t.Errorf("%q is read as %q of %q", name, q, q.names)
		}
		snap, restores := parseRestore(name)
		if restores && (ok || "restore@"+snap != name) {
			t.Errorf("%q is read as a restore of %q", name, snap)
		}
	})
}

// TestNamesOfControlFiles: no snapshot has the name of a control file.
func TestNamesOfControlFiles(t *testing.T) {
	for _, f := range files {
		if err := naming.Check(f.name); !errors.Is(err, naming.ErrBadName) {
			t.Errorf("a snapshot may have the name %q: %v", f.name, err)
		}
	}
}
