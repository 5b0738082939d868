// Package docs_test holds the documentation against what is there: links lead
// somewhere, every command and every flag is described, and nothing is that
// does not exist.
package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

const root = "../.."

// pages are the Markdown files of the repository, by path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "*/FORMAT.md", "*/*/FORMAT.md", "examples/*.md", "examples/*/*.md"} {
		names, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				t.Fatal(err)
			}
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

var listed = regexp.MustCompile(`(?m)^  ([a-z]+) +[A-Z]`)

// commands are the names that amberfs help lists.
func commands(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, m := range listed.FindAllStringSubmatch(amberfs(t, "help"), -1) {
		out = append(out, m[1])
	}
	if len(out) < 20 {
		t.Fatalf("amberfs help lists only %v", out)
	}
	return out
}

func amberfs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(harness.Binary(t), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("amberfs %v: %v\n%s", args, err, out)
	}
	return string(out)
}

var (
	usage = regexp.MustCompile("`amberfs ([a-z]+)")
	flag  = regexp.MustCompile("(^|[\\s(|\\[`])--([a-z][a-z-]+)")
)

// TestCommands: docs/cli.md has every command with every flag of it, and no
// other.
func TestCommands(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	there := commands(t)
	for _, m := range usage.FindAllStringSubmatch(page, -1) {
		if !slices.Contains(there, m[1]) && m[1] != "completion" {
			t.Errorf("docs/cli.md tells of amberfs %s, which amberfs help does not list", m[1])
		}
	}
	for _, name := range there {
		rows := ""
		for line := range strings.Lines(page) {
			if strings.Contains(line, "`amberfs "+name) {
				rows += line
			}
		}
		if rows == "" {
			t.Errorf("docs/cli.md does not tell of amberfs %s", name)
			continue
		}
		help, _, _ := strings.Cut(amberfs(t, "help", name), "Global Flags:")
		_, flags, _ := strings.Cut(help, "\nFlags:")
		for _, m := range flag.FindAllStringSubmatch(flags, -1) {
			if m[2] != "help" && !strings.Contains(page, "--"+m[2]) {
				t.Errorf("docs/cli.md does not tell of amberfs %s --%s", name, m[2])
			}
		}
		// A row is of the first command in it.
		for line := range strings.Lines(rows) {
			for _, m := range flag.FindAllStringSubmatch(line, -1) {
				if strings.HasPrefix(line, "| `amberfs "+name) && !strings.Contains(help, "--"+m[2]) {
					t.Errorf("docs/cli.md: amberfs %s has no flag --%s", name, m[2])
				}
			}
		}
	}
}
