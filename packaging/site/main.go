// Command site makes web pages of the documentation: one file a page, no
// scripts, nothing fetched from elsewhere.
//
//	go run ./packaging/site OUT
package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// source is where files that are no pages can be looked at.
const source = "https://github.com/amberfs/amberfs/blob/main/"

// sections are the pages, in the order of the menu.
var sections = []struct {
	Title string
	Pages []page
}{
	{"Start", []page{{"README.md", "amberfs"}, {"docs/quickstart.md", "Ten minutes"}, {"docs/install.md", "Installing"}, {"docs/agents.md", "For agents"}, {"docs/comparison.md", "What else there is"}}},
	{"Reference", []page{{"docs/files.md", "Every file"}, {"docs/cli.md", "Every command"}, {"docs/ui.md", "The page"}, {"docs/json.md", "JSON"}, {"docs/api.md", "HTTP and call"}, {"docs/git.md", "git and archives"}, {"docs/store.md", "A store on disk"}, {"docs/limits.md", "Limits"}, {"docs/posix.md", "POSIX"}}},
	{"Running it", []page{{"docs/backup.md", "Backing up"}, {"docs/remotes.md", "Remotes"}, {"docs/troubleshooting.md", "Troubleshooting"}, {"docs/RELIABILITY.md", "Reliability"}, {"docs/SECURITY-MODEL.md", "Security model"}, {"docs/speed.md", "Speed"}}},
	{"Inside", []page{{"docs/ARCHITECTURE.md", "Architecture"}, {"docs/dependencies.md", "What it is made of"}, {"cas/FORMAT.md", "Format of packs"}, {"snapshot/FORMAT.md", "Format of the catalogue"}, {"CONTRIBUTING.md", "Contributing"}, {"SECURITY.md", "Reporting"}, {"CHANGELOG.md", "Changes"}}},
}

// A page is a Markdown file, by path from the root of the repository.
type page struct{ File, Title string }

// URL is the page's path in the site.
func (p page) URL() string {
	if p.File == "README.md" {
		return "index.html"
	}
	return strings.TrimSuffix(p.File, ".md") + ".html"
}

//go:embed page.html
var layout string

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: site OUT")
		os.Exit(2)
	}
	if err := build(os.DirFS("."), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

func build(in fs.FS, out string) error {
	known := map[string]page{}
	for _, s := range sections {
		for _, p := range s.Pages {
			known[p.File] = p
		}
	}
	t, err := template.New("page").Parse(layout)
	if err != nil {
		return err
	}
	for _, p := range known {
		if err := p.write(in, out, known, t); err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
	}
	return pictures(in, out)
}

// write makes one page.
func (p page) write(in fs.FS, out string, known map[string]page, t *template.Template) error {
	md, err := fs.ReadFile(in, p.File)
	if err != nil {
		return err
	}
	convert := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	doc := convert.Parser().Parse(text.NewReader(md))
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && entering {
			l.Destination = []byte(p.resolve(string(l.Destination), known))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return err
	}
	var body, all bytes.Buffer
	if err := convert.Renderer().Render(&body, md, doc); err != nil {
		return err
	}
	up := strings.Repeat("../", strings.Count(p.URL(), "/"))
	err = t.Execute(&all, map[string]any{"Page": p, "Sections": sections, "Up": up, "Body": template.HTML(body.String())})
	if err != nil {
		return err
	}
	return put(filepath.Join(out, p.URL()), all.Bytes())
}

// resolve is where a link of a page leads in the site: to another page, or to
// the file in the repository.
func (p page) resolve(link string, known map[string]page) string {
	file, anchor, _ := strings.Cut(link, "#")
	if file == "" || strings.Contains(link, "://") {
		return link
	}
	target := path.Join(path.Dir(p.File), file)
	to, ok := known[target]
	if !ok {
		return source + target
	}
	url := strings.Repeat("../", strings.Count(p.URL(), "/")) + to.URL()
	if anchor != "" {
		url += "#" + anchor
	}
	return url
}

// pictures copies what the pages show.
func pictures(in fs.FS, out string) error {
	var all []string
	for _, pattern := range []string{"docs/*.svg", "docs/*/*.svg", "docs/*/*.png"} {
		some, err := fs.Glob(in, pattern)
		if err != nil {
			return err
		}
		all = append(all, some...)
	}
	for _, f := range all {
		b, err := fs.ReadFile(in, f)
		if err != nil {
			return err
		}
		if err := put(filepath.Join(out, f), b); err != nil {
			return err
		}
	}
	return nil
}

func put(name string, b []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, b, 0o644)
}
