// Package arch_test checks who imports what.
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

// layers are the top-level folders. A package imports only from its own folder and from those behind it.
var layers = []string{
	"tests", "cmd", "fusefs", "service", "gitbridge", "hostdir", "archive", "diff", "stream", "remote", "snapshot", "cas", "internal",
}

// onlyHere names the libraries that one folder alone knows.
var onlyHere = map[string][]string{
	"github.com/hanwen/go-fuse":   {"fusefs", "tests"},
	"github.com/dgraph-io/badger": {"cas/index"},
	"github.com/minio/minio-go":   {"remote", "tests/remote"},
	"oras.land/oras-go":           {"remote"},
	"filippo.io/age":              {"remote"},
}

// source is a Go file: its package, by import path, and its imports.
type source struct {
	file    string // below the root of the module
	pkg     string
	name    string // of the package
	doc     string // the comment of the package
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
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		s := source{
			file: path.Join(filepath.ToSlash(rel), d.Name()), pkg: path.Join(module, filepath.ToSlash(rel)),
			name: parsed.Name.Name, doc: parsed.Doc.Text(), test: strings.HasSuffix(file, "_test.go"),
		}
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
		layer := slices.Index(layers, from)
		if layer < 0 {
			t.Errorf("%s: the folder %q is not in layers", s.pkg, from)
			continue
		}
		seen[from] = true

		for _, imp := range s.imports {
			to := folder(imp)
			double := s.test && to == "tests"
			if to != "" && !slices.Contains(layers[layer:], to) && !double {
				t.Errorf("%s imports %s: %s may import only %v", s.pkg, imp, from, layers[layer:])
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

	for _, name := range layers {
		if !seen[name] {
			t.Errorf("no package under %s: has the rule outlived the folder?", name)
		}
	}
}

// TestPackagesSayWhoImportsThem compares a sentence in the comment of each package that is not below a
// folder internal with the packages that import it:
//
//	Imported by: all of cmd, service, snapshot/engine.
//
// A name is one package, and "all of" a folder stands for each package in it. "tests" are all test files and
// the packages of tests. "other modules" are programs outside of this repository. Tests may import any
// package below them.
func TestPackagesSayWhoImportsThem(t *testing.T) {
	docs, importers := map[string]string{}, map[string][]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}

		rel := strings.TrimPrefix(s.pkg, module+"/")
		if s.name != "main" && !slices.Contains(strings.Split(rel, "/"), "internal") {
			docs[rel] += s.doc + "\n"
		}
		for _, imp := range s.imports {
			to, ok := strings.CutPrefix(imp, module+"/")
			if ok && (folder(s.pkg) != "tests" || folder(imp) == "tests") && !slices.Contains(importers[to], rel) {
				importers[to] = append(importers[to], rel)
			}
		}
	}

	for pkg, doc := range docs {
		allowed, ok := importedBy(doc)
		if !ok {
			t.Errorf("%s: its comment has no sentence as `Imported by: all of cmd, service.`: it is imported by %q", pkg, importers[pkg])
			continue
		}

		for _, from := range importers[pkg] {
			if !slices.ContainsFunc(allowed, func(name string) bool { return isAllowed(name, from) }) {
				t.Errorf("%s is imported by %s, and its comment allows only %q", pkg, from, allowed)
			}
		}

		for _, name := range allowed {
			used := slices.ContainsFunc(importers[pkg], func(from string) bool { return isAllowed(name, from) })
			if !used && name != "tests" && name != "other modules" {
				t.Errorf("%s says that it is imported by %s, and it is not", pkg, name)
			}
		}
	}
}

// importedBy returns the names in the sentence of a package comment.
func importedBy(doc string) ([]string, bool) {
	for paragraph := range strings.SplitSeq(doc, "\n\n") {
		names, ok := strings.CutPrefix(strings.Join(strings.Fields(paragraph), " "), "Imported by: ")
		if names, ended := strings.CutSuffix(names, "."); ok && ended {
			return strings.Split(names, ", "), true
		}
	}
	return nil, false
}

// isAllowed reports whether a name in a sentence stands for a package.
func isAllowed(name, pkg string) bool {
	if name == "tests" {
		name = "all of tests"
	}
	if dir, ok := strings.CutPrefix(name, "all of "); ok {
		return strings.HasPrefix(pkg+"/", dir+"/")
	}
	return name == pkg
}
