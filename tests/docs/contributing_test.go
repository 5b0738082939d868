package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

var (
	namedFile = regexp.MustCompile("`([a-z][a-z_]*(?:/[A-Za-z_.]+)+)`")
	namedCode = regexp.MustCompile("`(?:[A-Za-z]+\\.)?([A-Za-z]+)`")
)

// TestWhereAChangeGoes: the table of CONTRIBUTING names files that exist, and what it names in
// parentheses behind a file is declared there.
func TestWhereAChangeGoes(t *testing.T) {
	page := pages(t)["CONTRIBUTING.md"]
	_, table, _ := strings.Cut(page, "| I want to | start at |")
	table, _, _ = strings.Cut(table, "\n\n")
	files := 0
	for row := range strings.Lines(table) {
		for _, at := range namedFile.FindAllStringSubmatchIndex(row, -1) {
			files++
			name := row[at[2]:at[3]]
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("CONTRIBUTING.md names %s: %v", name, err)
				continue
			}
			rest, ok := strings.CutPrefix(row[at[1]:], " (")
			if !ok {
				continue
			}
			declared, _, _ := strings.Cut(rest, ")")
			code, err := os.ReadFile(filepath.Join(root, name))
			must.OK(t, err)
			for _, of := range namedCode.FindAllStringSubmatch(declared, -1) {
				if !regexp.MustCompile(`(?m)^(func|type|const|var) (\([^)]*\) )?` + of[1] + `\b`).Match(code) {
					t.Errorf("CONTRIBUTING.md: %s does not declare %s", name, of[1])
				}
			}
		}
	}
	if files < 15 {
		t.Errorf("the table names %d files", files)
	}
}

// TestJourneys: each function that a drawing names is declared somewhere.
func TestJourneys(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".go" {
			return err
		}
		code, err := os.ReadFile(name)
		for _, of := range regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) (\w+)`).FindAllSubmatch(code, -1) {
			declared[string(of[1])+"."+string(of[2])] = true
		}
		return err
	})
	must.OK(t, err)

	_, journeys, _ := strings.Cut(pages(t)["docs/dev/architecture.md"], "## Journeys")
	journeys, _, _ = strings.Cut(journeys, "## Locks")
	named := regexp.MustCompile(`\b(Forest|Writer|Reader|applier|[a-z]*[tT]ree|Service|Workspace|Store|Forks|Plan|Op|Edit|Restore|Takeover|view|input|mcpServer|keeper|filesystem)\.(\w+)`).FindAllString(journeys, -1)
	if len(named) < 20 {
		t.Errorf("the journeys name %d functions", len(named))
	}
	for _, name := range named {
		if !declared[name] {
			t.Errorf("docs/dev/architecture.md names %s, which is not declared", name)
		}
	}
}

// TestArchitectureNamesFolders: the first column of the table is folders that are there.
func TestArchitectureNamesFolders(t *testing.T) {
	_, table, _ := strings.Cut(pages(t)["docs/dev/architecture.md"], "| folder |")
	table, _, _ = strings.Cut(table, "\n\n")
	folders := 0
	for row := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |")
		for _, of := range namedFolder.FindAllStringSubmatch(first, -1) {
			folders++
			if st, err := os.Stat(filepath.Join(root, of[1])); err != nil || !st.IsDir() {
				t.Errorf("docs/dev/architecture.md: no folder %s: %v", of[1], err)
			}
		}
	}
	if folders < 15 {
		t.Errorf("the table names %d folders", folders)
	}
}

var namedFolder = regexp.MustCompile("`([a-z/]+)`")

// maxWords is how much there is to read for users: the README and docs/ without docs/dev/. The how-to of
// forget and of handoff, and what is generated of their options, have 1,150 of them, and the measured tables 1,000.
const maxWords = 22_100

func TestWordsInAll(t *testing.T) {
	words := 0
	add := func(name string) {
		b, err := os.ReadFile(name)
		must.OK(t, err)
		words += len(strings.Fields(string(b)))
	}
	add(filepath.Join(root, "README.md"))
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "dev":
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			add(name)
		}
		return nil
	})
	must.OK(t, err)
	if words < maxWords/2 || words > maxWords {
		t.Errorf("README.md and docs/ have %d words, at most %d are wanted: delete before you add", words, maxWords)
	}
}
