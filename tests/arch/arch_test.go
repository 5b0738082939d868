// Package arch_test checks that imports go one way:
//
//	cmd -> fusefs -> control -> service -> {gitbridge, diff} -> snapshot -> cas
//
// and that internal, the ground under all of them, imports none.
package arch_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/amberfs/amberfs"

// mayImport says for each top-level folder which others it may use. A folder
// that is missing here fails the test: it has to be put somewhere.
var mayImport = map[string][]string{
	"cmd":       {"fusefs", "control", "service", "gitbridge", "diff", "remote", "snapshot", "cas", "internal"},
	"fusefs":    {"control", "service", "snapshot", "cas", "internal"},
	"control":   {"service", "snapshot", "cas", "internal"},
	"service":   {"gitbridge", "diff", "remote", "snapshot", "cas", "internal"},
	"gitbridge": {"snapshot", "cas", "internal"},
	"diff":      {"snapshot", "cas", "internal"},
	"remote":    {"cas", "internal"},
	"snapshot":  {"cas", "internal"},
	"cas":       {"internal"},
	"internal":  {},
	"packaging": {},
	"tests":     {"cmd", "fusefs", "control", "service", "gitbridge", "diff", "remote", "snapshot", "cas", "internal"},
}

// onlyHere names the libraries that one folder alone knows.
var onlyHere = map[string][]string{
	"github.com/hanwen/go-fuse":   {"fusefs", "tests"},
	"github.com/dgraph-io/badger": {"cas"},
	"github.com/minio/minio-go":   {"remote"},
	"oras.land/oras-go":           {"remote"},
	"filippo.io/age":              {"remote"},
	// Nobody: it takes 8 ms and 2.7 MB at the start of every command.
	"github.com/alecthomas/chroma/v2/lexers": {},
}

type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"/...")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []listed
	for d := json.NewDecoder(out); ; {
		var p listed
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("go list: %v", err)
	}
	return all
}

// folder is the top-level folder of a package of this module, or "".
func folder(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return ""
	}
	first, _, _ := strings.Cut(rest, "/")
	return first
}

func TestImportsGoOneWay(t *testing.T) {
	all := packages(t)
	seen := map[string]bool{}
	for _, p := range all {
		from := folder(p.ImportPath)
		allowed, known := mayImport[from]
		if !known {
			t.Errorf("%s: no rule for the folder %q", p.ImportPath, from)
			continue
		}
		seen[from] = true
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			to := folder(imp)
			if to == "tests" && !slices.Contains(p.Imports, imp) {
				continue // test doubles
			}
			if to != "" && to != from && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may import only %v", p.ImportPath, imp, from, allowed)
			}
			for lib, folders := range onlyHere {
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.Contains(folders, from) {
					t.Errorf("%s imports %s, which only %v may", p.ImportPath, imp, folders)
				}
			}
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("no package under %s: has the rule outlived the folder?", name)
		}
	}
}

// The layers inside snapshot: the journal knows no tree, the bytes of files know
// neither, the immutable tree knows no live one, and none of them knows the
// workspace above.
func TestLayersOfSnapshot(t *testing.T) {
	below := map[string][]string{
		"snapshot/journal": {"snapshot/content", "snapshot/tree", "snapshot/live", "snapshot"},
		"snapshot/content": {"snapshot/journal", "snapshot/tree", "snapshot/live", "snapshot"},
		"snapshot/tree":    {"snapshot/journal", "snapshot/live", "snapshot"},
		"snapshot/live":    {"snapshot"},
	}
	found := 0
	for _, p := range packages(t) {
		rel := strings.TrimPrefix(p.ImportPath, module+"/")
		forbidden, ok := below[rel]
		if !ok {
			continue
		}
		found++
		for _, imp := range p.Imports {
			if slices.Contains(forbidden, strings.TrimPrefix(imp, module+"/")) {
				t.Errorf("%s imports %s", rel, path.Base(imp))
			}
		}
	}
	if found != len(below) {
		t.Errorf("found %d of %d layers", found, len(below))
	}
}
