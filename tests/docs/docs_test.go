// Package docs_test holds the documentation against the program: links lead
// somewhere, every command and every flag is described, and nothing is that
// does not exist.
package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const root = "../.."

// pages are the Markdown files of the repository, by path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "*/FORMAT.md", "*/*/FORMAT.md", "examples/*.md", "examples/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		must.OK(t, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			must.OK(t, err)
			rel, err := filepath.Rel(root, name)
			must.OK(t, err)
			out[rel] = string(b)
		}
	}
	return out
}

var (
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	code    = regexp.MustCompile("`[^`\n]*`")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	notWord = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// anchors are the names that a forge gives to the headings of a page.
func anchors(page string) []string {
	var out []string
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		out = append(out, strings.ReplaceAll(notWord.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-"))
	}
	return out
}

func TestLinks(t *testing.T) {
	all := pages(t)
	if len(all) < 10 {
		t.Fatalf("only %d pages", len(all))
	}
	for name, page := range all {
		text := code.ReplaceAllString(fence.ReplaceAllString(page, ""), "")
		for _, l := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(l[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(l[1], "#")
			target := name
			if file != "" {
				target = filepath.Join(filepath.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, l[1])
			} else if to, ok := all[target]; ok && anchor != "" && !slices.Contains(anchors(to), anchor) {
				t.Errorf("%s: %s has no heading #%s", name, target, anchor)
			}
		}
	}
}

// TestIndex: every page of the documentation is reachable from docs/README.md in one step.
func TestIndex(t *testing.T) {
	all := pages(t)
	index := all["docs/README.md"]
	for name := range all {
		rel, ok := strings.CutPrefix(name, "docs/")
		if ok && name != "docs/README.md" && !strings.Contains(index, "("+rel+")") {
			t.Errorf("docs/README.md has no link to %s", rel)
		}
	}
}

var testName = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`)

// TestTestsExist: every test that a page names is there.
func TestTestsExist(t *testing.T) {
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, name := range regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)`).FindAllStringSubmatch(string(b), -1) {
			there[name[1]] = true
		}
		return err
	})
	must.OK(t, err)
	for name, page := range pages(t) {
		for _, test := range testName.FindAllString(page, -1) {
			if !there[test] {
				t.Errorf("%s names %s, which does not exist", name, test)
			}
		}
	}
}
