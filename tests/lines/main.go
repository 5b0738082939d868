// Package main is the command lines, which measures the Go code of the module for scripts/lines:
// lines of code by package, and how much a reader meets on a type. The figures show where to
// look. TestTypesAreNarrow limits what a reader meets on a type.
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// generated is the line by which Go's tools know files that no person writes.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// apart are folders of the module whose lines are counted by themselves.
var apart = []string{"tests", "cmd/amberfs-csi", "cmd/containerd-amberfs"}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}

	m := module{types: map[string]*goType{}, lines: map[string]int{}}
	if err := m.read(root); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
	m.print()
}

// A module is what was read of all modules below a folder.
type module struct {
	types map[string]*goType // by package and name, as in "snapshot/live.Forest"
	lines map[string]int     // of code, by package

	bodyLines, blankLines int // of the bodies of functions
}

// A goType is a type with what a reader meets on it.
type goType struct {
	name     string
	fields   int
	methods  map[string]bool
	embedded []string // names in types

	inodes  int  // fields that are inodes or their numbers
	hasPath bool // a field is a path
}

// read reads the Go files of the module at root, and of the modules in it.
func (m *module) read(root string) error {
	return filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != root && (d.Name() == "testdata" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}

		text, err := os.ReadFile(file)
		if err != nil || generated.Match(text) {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		m.lines[pkg] += codeLines(text)
		return m.readTypes(pkg, file, text)
	})
}

// codeLines returns the number of lines on which a token stands, apart from comments.
func codeLines(text []byte) int {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)

	lines := map[int]bool{}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own
		}

		// A raw string is code on each of its lines.
		first := file.Line(pos)
		for i := range 1 + strings.Count(literal, "\n") {
			lines[first+i] = true
		}
	}
}

// readTypes notes the types of a file, their methods, and the blank lines in its functions.
func (m *module) readTypes(pkg, name string, text []byte) error {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}

	imports := map[string]string{}
	for _, i := range parsed.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		local := imported[strings.LastIndex(imported, "/")+1:]
		if i.Name != nil {
			local = i.Name.Name
		}
		imports[local] = strings.TrimPrefix(imported, "github.com/amberfs/amberfs/")
	}

	for _, d := range parsed.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				m.countBlank(text[files.Position(d.Body.Lbrace).Offset:files.Position(d.Body.Rbrace).Offset])
			}
			if d.Recv != nil && len(d.Recv.List) == 1 {
				m.typeNamed(pkg + "." + typeName(d.Recv.List[0].Type)).methods[d.Name.Name] = true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					m.typeNamed(pkg+"."+s.Name.Name).add(s.Type, pkg, imports)
				}
			}
		}
	}
	return nil
}

// countBlank counts the lines between the braces of a function, and those that are blank.
func (m *module) countBlank(body []byte) {
	lines := bytes.Split(body, []byte("\n"))
	if len(lines) < 3 {
		return
	}
	for _, l := range lines[1 : len(lines)-1] {
		m.bodyLines++
		if len(bytes.TrimSpace(l)) == 0 {
			m.blankLines++
		}
	}
}

func (m *module) typeNamed(name string) *goType {
	t := m.types[name]
	if t == nil {
		t = &goType{name: name, methods: map[string]bool{}}
		m.types[name] = t
	}
	return t
}

// add notes the fields of a struct, or the methods of an interface.
func (t *goType) add(def ast.Expr, pkg string, imports map[string]string) {
	var fields *ast.FieldList
	switch def := def.(type) {
	case *ast.StructType:
		fields = def.Fields
	case *ast.InterfaceType:
		fields = def.Methods
	default:
		return
	}

	for _, f := range fields.List {
		_, isMethod := f.Type.(*ast.FuncType)
		_, isInterface := def.(*ast.InterfaceType)
		if len(f.Names) == 0 {
			t.fields++
			t.embedded = append(t.embedded, fullName(f.Type, pkg, imports))
		}
		for _, n := range f.Names {
			if isMethod && isInterface {
				t.methods[n.Name] = true
				continue
			}
			t.fields++
			t.notePathAndInodes(n.Name, f.Type)
		}
	}
}

// notePathAndInodes notes a field that is a path, or one side of a difference.
func (t *goType) notePathAndInodes(field string, def ast.Expr) {
	of := typeName(def)
	switch {
	case of == "Path", strings.EqualFold(field, "path"):
		t.hasPath = true
	case of == "Inode", of == "uint64" && (len(field) == 1 || strings.Contains(strings.ToLower(field), "ino")):
		t.inodes++
	}
}

// fullName returns the name in module.types of an embedded type.
func fullName(e ast.Expr, pkg string, imports map[string]string) string {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	if sel, ok := e.(*ast.SelectorExpr); ok {
		if of, ok := sel.X.(*ast.Ident); ok {
			return imports[of.Name] + "." + sel.Sel.Name
		}
	}
	return pkg + "." + typeName(e)
}

// typeName returns the name of a type without its package, pointers and arguments.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// methodsMet returns the methods that a reader meets on a type: its own and the promoted ones.
func (m *module) methodsMet(t *goType, seen map[string]bool) map[string]bool {
	met := maps.Clone(t.methods)
	for _, name := range t.embedded {
		if e := m.types[name]; e != nil && !seen[name] {
			seen[name] = true
			maps.Copy(met, m.methodsMet(e, seen))
		}
	}
	return met
}

func (m *module) print() {
	fmt.Println("Lines of code, without blank lines, comments, tests and generated files:")
	sum, sumApart := 0, 0
	for _, pkg := range slices.Sorted(maps.Keys(m.lines)) {
		if isApart(pkg) {
			sumApart += m.lines[pkg]
			continue
		}
		fmt.Printf("%7d  %s\n", m.lines[pkg], pkg)
		sum += m.lines[pkg]
	}
	fmt.Printf("%7d  in all\n%7d  apart: helpers of tests, the bench, the modules of the cluster drivers\n\n", sum, sumApart)

	fmt.Printf("Blank lines in 100 lines of functions: %.1f\n\n", 100*float64(m.blankLines)/float64(max(1, m.bodyLines)))

	m.printLargest("methods, promoted ones too", func(t *goType) int { return len(m.methodsMet(t, map[string]bool{t.name: true})) })
	m.printLargest("fields", func(t *goType) int { return t.fields })

	fmt.Println("Types that are a path with two inodes:")
	for _, name := range slices.Sorted(maps.Keys(m.types)) {
		if t := m.types[name]; t.hasPath && t.inodes >= 2 && !isApart(name) {
			fmt.Println("         " + name)
		}
	}
}

// printLargest prints the ten types for which size is largest.
func (m *module) printLargest(what string, size func(*goType) int) {
	types := slices.DeleteFunc(slices.Collect(maps.Values(m.types)), func(t *goType) bool { return isApart(t.name) })
	slices.SortFunc(types, func(a, b *goType) int {
		return cmp.Or(size(b)-size(a), strings.Compare(a.name, b.name))
	})

	fmt.Printf("Types with the most %s:\n", what)
	for _, t := range types[:min(10, len(types))] {
		fmt.Printf("%7d  %s\n", size(t), t.name)
	}
	fmt.Println()
}

// isApart reports whether a package, or a type by its full name, is counted by itself.
func isApart(name string) bool {
	for _, folder := range apart {
		if name == folder || strings.HasPrefix(name, folder+"/") || strings.HasPrefix(name, folder+".") {
			return true
		}
	}
	return false
}
