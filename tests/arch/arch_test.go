// Package arch_test checks that imports go one way:
//
//	cmd -> fusefs -> service -> gitbridge -> {hostdir, archive} -> stream -> snapshot -> cas
//
// and that internal, the ground under all of them, imports none.
package arch_test

import (
	"bytes"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

const module = "github.com/amberfs/amberfs"

// mayImport says for each top-level folder which others it may use. A folder
// that is missing here fails the test: it has to be put somewhere.
var mayImport = map[string][]string{
	"cmd":       {"fusefs", "service", "gitbridge", "hostdir", "archive", "stream", "diff", "remote", "snapshot", "cas", "internal"},
	"fusefs":    {"service", "snapshot", "cas", "internal"},
	"service":   {"gitbridge", "hostdir", "archive", "stream", "diff", "remote", "snapshot", "cas", "internal"},
	"gitbridge": {"hostdir", "archive", "stream", "snapshot", "cas", "internal"},
	"hostdir":   {"stream", "snapshot", "cas", "internal"}, // of git it knows its interface Git
	"archive":   {"stream", "snapshot", "cas", "internal"},
	"stream":    {"snapshot", "cas", "internal"},
	"diff":      {"snapshot", "cas", "internal"},
	"remote":    {"cas", "internal"},
	"snapshot":  {"cas", "internal"},
	"cas":       {"internal"},
	"internal":  {},
	"tests":     {"cmd", "fusefs", "control", "service", "gitbridge", "hostdir", "archive", "stream", "diff", "remote", "snapshot", "cas", "internal"},
}

// onlyHere names the libraries that one folder alone knows.
var onlyHere = map[string][]string{
	"github.com/hanwen/go-fuse":   {"fusefs", "tests"},
	"github.com/dgraph-io/badger": {"cas/index"},
	"github.com/minio/minio-go":   {"remote"},
	"oras.land/oras-go":           {"remote"},
	"filippo.io/age":              {"remote"},
}

// source is a Go file: its package, by import path, and its imports.
type source struct {
	file    string // below the root of the module
	pkg     string
	test    bool
	imports []string
}

// sources are the Go files of this module. They are read here and not by a child,
// so that Go's test cache sees when one changes.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil || bytes.HasPrefix(text, []byte("//go:build ignore\n")) {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		s := source{file: path.Join(filepath.ToSlash(rel), d.Name()), pkg: path.Join(module, filepath.ToSlash(rel)), test: strings.HasSuffix(file, "_test.go")}
		for _, i := range parsed.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			s.imports = append(s.imports, imported)
		}
		out = append(out, s)
		return nil
	})
	must.OK(t, err)
	return out
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
	seen := map[string]bool{}
	for _, s := range sources(t) {
		from := folder(s.pkg)
		allowed, known := mayImport[from]
		if !known {
			t.Errorf("%s: no rule for the folder %q", s.pkg, from)
			continue
		}
		seen[from] = true
		for _, imp := range s.imports {
			to := folder(imp)
			double := s.test && to == "tests"
			if to != "" && to != from && !slices.Contains(allowed, to) && !double {
				t.Errorf("%s imports %s: %s may import only %v", s.pkg, imp, from, allowed)
			}
			for lib, folders := range onlyHere {
				here := func(folder string) bool {
					return strings.HasPrefix(s.pkg+"/", module+"/"+folder+"/")
				}
				if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.ContainsFunc(folders, here) {
					t.Errorf("%s imports %s, which only %v may", s.pkg, imp, folders)
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

		// Edits of trees: without a lock, a view or a disk.
		"snapshot/graft":    {"snapshot/journal", "snapshot/live", "snapshot"},
		"snapshot/threeway": {"snapshot/journal", "snapshot/live", "snapshot"},
		"snapshot/info":     {"snapshot/journal", "snapshot/live", "snapshot"},

		// The catalogue is changed by records alone, without a lock, a journal or a live tree.
		"snapshot/catalogue": {"snapshot/journal", "snapshot/live", "snapshot/engine", "snapshot"},

		// Parts of the store: they know neither each other nor the store.
		"snapshot/policy": {"snapshot/catalogue", "snapshot/engine", "snapshot"},
		"snapshot/engine": {"snapshot/policy", "snapshot/repair", "snapshot/events", "snapshot"},
		"snapshot/repair": {"snapshot/policy", "snapshot/engine", "snapshot/events", "snapshot"},
	}
	found := map[string]bool{}
	for _, s := range sources(t) {
		rel := strings.TrimPrefix(s.pkg, module+"/")
		forbidden, ok := below[rel]
		if !ok || s.test {
			continue
		}
		found[rel] = true
		for _, imp := range s.imports {
			if slices.Contains(forbidden, strings.TrimPrefix(imp, module+"/")) {
				t.Errorf("%s imports %s", rel, path.Base(imp))
			}
		}
	}
	if len(found) != len(below) {
		t.Errorf("found %d of %d layers", len(found), len(below))
	}
}
