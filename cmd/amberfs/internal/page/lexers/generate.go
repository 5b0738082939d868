//go:build ignore

// Generate writes the lexers of the page anew, from those of the chroma that go.mod
// names: the ones listed below, and those that they use.
package main

import (
	"log"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
)

const names = `Bash, Batchfile, C, C#, C++, Clojure, CMake, CSS, CSV, CUE, D, Dart, Diff, Docker, Elixir, Elm, Erlang, Fish, Fortran, FSharp, GDScript, Gherkin, GLSL, Go, GraphQL, Groovy, Haskell, HCL, HTML, INI, Java, JavaScript, JSON,
Jsonnet, Julia, Kotlin, Lua, Makefile, markdown, Meson, Nginx configuration file, Nim, Nix, Objective-C, OCaml, Perl, PHP,
PowerShell, Prolog, properties, Protocol Buffer, Python, R, Racket, react, Ruby, Rust, Sass, Scala, Scheme, SCSS, Solidity,
SQL, Swift, SYSTEMD, SystemVerilog, Tcl, Terraform, TeX, Thrift, TOML, TypeScript, verilog, VHDL, VimL, vue, WebAssembly Text Format,
XML, YAML, Zig`

var (
	used   = regexp.MustCompile(`<using lexer="([^"]+)"`)
	unfile = regexp.MustCompile(`[^a-z0-9#+-]+`)
)

func main() {
	todo, done := strings.FieldsFunc(strings.ReplaceAll(names, "\n", " "), func(r rune) bool { return r == ',' }), map[string]bool{}
	for len(todo) > 0 {
		l := lexers.Get(strings.TrimSpace(todo[0]))
		if l == nil {
			log.Fatalf("no lexer %q", todo[0])
		}
		todo = todo[1:]
		name := l.Config().Name
		if done[name] {
			continue
		}
		done[name] = true
		b, err := chroma.Marshal(regex(l))
		if err != nil {
			log.Fatalf("%s: %v", name, err)
		}
		for _, m := range used.FindAllStringSubmatch(string(b), -1) {
			todo = append(todo, m[1])
		}
		file := unfile.ReplaceAllString(strings.ToLower(name), "_") + ".xml"
		if err := os.WriteFile(file, b, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// regex is a lexer, or what it wraps.
func regex(l chroma.Lexer) *chroma.RegexLexer {
	if l == lexers.Go {
		return withoutTemplates(l.(*chroma.RegexLexer))
	}
	if r, ok := l.(*chroma.RegexLexer); ok {
		return r
	}
	return regex(reflect.Indirect(reflect.ValueOf(l)).FieldByName("Lexer").Interface().(chroma.Lexer))
}

// withoutTemplates takes a raw string of Go for a string. Chroma looks for a template in
// it, by a function that a file cannot name.
func withoutTemplates(l *chroma.RegexLexer) *chroma.RegexLexer {
	rules, err := l.Rules()
	if err != nil {
		log.Fatal(err)
	}
	for i, r := range rules["root"] {
		if strings.HasPrefix(r.Pattern, "(`)") {
			rules["root"][i] = chroma.Rule{Pattern: "`[^`]*`", Type: chroma.LiteralString}
		}
	}
	return chroma.MustNewLexer(l.Config(), func() chroma.Rules { return rules })
}
