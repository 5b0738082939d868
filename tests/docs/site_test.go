package docs_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	href = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	id   = regexp.MustCompile(` id="([^"]+)"`)
)

// TestSite builds the web pages: every page of docs/ is among them, and every
// link within them leads somewhere.
func TestSite(t *testing.T) {
	out := t.TempDir()
	cmd := exec.Command("go", "run", "./packaging/site", out)
	cmd.Dir = root
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	pages, ids := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" {
			return err
		}
		b, err := os.ReadFile(path)
		pages[path] = string(b)
		for _, m := range id.FindAllStringSubmatch(string(b), -1) {
			ids[path+"#"+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		page := filepath.Join(out, "docs", strings.TrimSuffix(filepath.Base(name), ".md")+".html")
		if pages[page] == "" {
			t.Errorf("%s is not in the site: packaging/site has the list", name)
		}
	}
	for path, page := range pages {
		for _, m := range href.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %s leads nowhere", path, m[1])
			} else if anchor != "" && !ids[target+"#"+anchor] {
				t.Errorf("%s: %s has no such heading", path, m[1])
			}
		}
	}
}
