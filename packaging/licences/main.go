// Command licences lists the modules that are linked into amberfs with their
// licences. It fails for a licence that it does not know to be compatible with
// the project's own, Apache-2.0.
//
//	licences                       as Markdown
//	licences -texts                with the texts
//	licences -old                  fails for a module without a release in two
//	                               years of which docs/dev/dependencies.md says nothing
//	licences -sbom PROGRAM         what PROGRAM is made of, as a bill of materials
//	licences -o FILE …             into FILE
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// known are the licences that may be linked, by a sentence that only they have.
var known = []struct{ name, sentence string }{
	{"CC-BY-SA-4.0 (its documentation)", "Attribution-ShareAlike 4.0"},
	{"Apache-2.0", "Apache License"},
	{"MPL-2.0", "Mozilla Public License"},
	{"BSD-3-Clause", "Neither the name"},
	{"BSD-2-Clause", "Redistribution and use in source and binary forms"},
	{"MIT", "Permission is hereby granted, free of charge"},
	{"ISC", "Permission to use, copy, modify, and"},
	{"CC0-1.0", "CC0 1.0"},
}

func main() {
	var (
		texts   = flag.Bool("texts", false, "with the `texts`")
		program = flag.String("sbom", "", "a bill of materials (CycloneDX) of `PROGRAM`")
		stale   = flag.Bool("old", false, "what had no release for two years")
		version = flag.String("version", "", "the `VERSION` of PROGRAM")
		file    = flag.String("o", "", "write to `FILE`, not to the standard output")
	)
	flag.Parse()
	var out bytes.Buffer
	var err error
	switch {
	case *program != "":
		err = sbom(*program, *version, &out)
	case *stale:
		err = old(&out)
	default:
		err = list(*texts, &out)
	}
	switch {
	case err != nil:
	case *file != "":
		err = os.WriteFile(*file, out.Bytes(), 0o644)
	default: // /dev/stdout as a FILE would cut a log that others write to
		_, err = out.WriteTo(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// list writes a table of the modules and, with texts, what their authors ask to
// be passed on with a program: the licence and the notice of each.
func list(texts bool, out io.Writer) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "# Licences\n\namberfs is under Apache-2.0. Linked into it are\n\n| module | version | licence |\n|---|---|---|")
	var bad []error
	var order []string             // of the texts: that of the modules, each time
	whose := map[string][]string{} // by text
	has := func(path, text string) {
		if whose[text] == nil {
			order = append(order, text)
		}
		whose[text] = append(whose[text], path)
	}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		name, err := licence(m.Dir)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", path, err))
			continue
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", path, m.Version, name)
		for _, text := range notices(m.Dir) {
			has(path, text)
		}
	}
	fmt.Fprintln(out, "\nand the standard library of Go (BSD-3-Clause).")
	if !texts {
		return errors.Join(bad...)
	}
	has("the standard library of Go", goLicence())
	for _, text := range order {
		fmt.Fprintf(out, "\n## %s\n\n```\n%s\n```\n", strings.Join(whose[text], ", "), strings.TrimSpace(text))
	}
	return errors.Join(bad...)
}

// old names the modules that are as they were two years ago.
func old(out io.Writer) error {
	modules, err := linked()
	if err != nil {
		return err
	}
	words, err := os.ReadFile("docs/dev/dependencies.md")
	if err != nil {
		return err
	}
	var bad []error
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		if m.Time == nil || m.Time.After(time.Now().AddDate(-2, 0, 0)) {
			continue
		}
		fmt.Fprintln(out, m.Time.Format(time.DateOnly), path, m.Version)
		if !strings.Contains(string(words), "`"+path+"`") {
			bad = append(bad, fmt.Errorf("%s %s is of %s, and docs/dev/dependencies.md does not say why it is used", path, m.Version, m.Time.Format(time.DateOnly)))
		}
	}
	return errors.Join(bad...)
}

type module struct {
	Path, Version, Dir string
	Main               bool
	// Time is when the version was made.
	Time *time.Time
}

// linked are the modules of which the program has packages, on the system that
// env says.
func linked(env ...string) (map[string]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module", "./cmd/amberfs")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	modules := map[string]module{}
	for d := json.NewDecoder(out); ; {
		var p struct{ Module *module }
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return modules, cmd.Wait()
		} else if err != nil {
			return nil, err
		}
		if p.Module != nil && !p.Module.Main {
			modules[p.Module.Path] = *p.Module
		}
	}
}

// licence reads which licences a module is under.
func licence(dir string) (string, error) {
	var found []string
	for _, text := range read(dir, "LICENSE*", "LICENCE*", "COPYING*", "UNLICENSE*") {
		found = append(found, named(text))
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 || slices.Contains(found, "") {
		return "", fmt.Errorf("the licence in %s is not known to be compatible", dir)
	}
	return strings.Join(found, ", "), nil
}

// notices are the texts that go with a program.
func notices(dir string) []string {
	return read(dir, "LICENSE*", "LICENCE*", "COPYING*", "UNLICENSE*", "NOTICE*")
}

// goLicence is the licence of what Go itself links in. A distribution may have
// put the file elsewhere, where the text is the same.
func goLicence() string {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err == nil {
		if texts := read(strings.TrimSpace(string(root)), "LICENSE"); len(texts) > 0 {
			return texts[0]
		}
	}
	return "https://go.dev/LICENSE"
}

// read gives the files of a directory by patterns of their names.
func read(dir string, patterns ...string) []string {
	var out []string
	for _, pattern := range patterns {
		files, _ := filepath.Glob(filepath.Join(dir, pattern)) // the patterns are well-formed
		for _, file := range files {
			if text, err := os.ReadFile(file); err == nil { // not a directory of licences
				out = append(out, string(text))
			}
		}
	}
	return out
}

func named(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, l := range known {
		if strings.Contains(text, l.sentence) {
			return l.name
		}
	}
	return ""
}
