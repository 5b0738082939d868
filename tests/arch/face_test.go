package arch_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

var linkInFace = regexp.MustCompile(`\[((?:[A-Z]\w*\.)?[A-Z]\w*)\]`)

// TestFace: the comment of package snapshot has a link to each exported type, function and method of the package, and
// each link leads to an exported name.
func TestFace(t *testing.T) {
	files, err := filepath.Glob("../../snapshot/*.go")
	must.OK(t, err)
	set := token.NewFileSet()
	var parsed []*ast.File
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			file, err := parser.ParseFile(set, f, nil, parser.ParseComments)
			must.OK(t, err)
			parsed = append(parsed, file)
		}
	}
	snapshot, err := doc.NewFromFiles(set, parsed, module+"/snapshot")
	must.OK(t, err)

	described, variables := map[string]bool{}, map[string]bool{}
	for _, f := range snapshot.Funcs {
		described[f.Name] = true
	}
	for _, of := range snapshot.Types {
		described[of.Name] = true
		for _, f := range of.Funcs {
			described[f.Name] = true
		}
		for _, m := range of.Methods {
			described[of.Name+"."+m.Name] = true
		}
	}
	for _, v := range snapshot.Vars {
		for _, name := range v.Names {
			variables[name] = true
		}
	}

	linked := map[string]bool{}
	for _, m := range linkInFace.FindAllStringSubmatch(snapshot.Doc, -1) {
		linked[m[1]] = true
		if !described[m[1]] && !variables[m[1]] {
			t.Errorf("snapshot/doc.go names %s, which package snapshot does not export", m[1])
		}
	}
	for name := range described {
		if !linked[name] {
			t.Errorf("snapshot/doc.go has no sentence about %s", name)
		}
	}
	if len(described) < 100 {
		t.Errorf("package snapshot exports %d names", len(described))
	}
}
