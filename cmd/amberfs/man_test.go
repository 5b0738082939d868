package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/tests/must"
)

// TestReferenceMan compares the man pages of packaging/man with the code.
func TestReferenceMan(t *testing.T) {
	const dir = "../../packaging/man"
	root := newRoot(&app{})
	root.DisableAutoGenTag = true
	root.InitDefaultHelpCmd()
	laidOut(root)
	pages := map[string]string{
		"amberfs-files.7":      pageOf(t, "control-files.md", "amberfs-files 7", "control files of a workspace"),
		"amberfs-policy.5":     pageOf(t, "policy.md", "amberfs-policy 5", "what a store keeps, and its limits"),
		"mount.amberfs.8":      ".so man1/amberfs-mount.1\n",
		"mount.fuse.amberfs.8": ".so man1/amberfs-mount.1\n",
	}
	addPages(t, pages, root)
	for page, want := range map[string]string{ // lines that follow each other in the help text
		"mount": ".TP\nsnapdir=visible|hidden\nwhether .snapshots and .forks are listed",
		"run":   ".EX\namberfs run --from . -- bwrap ",
		"diff":  ".SH EXIT STATUS\n",
	} {
		if !strings.Contains(pages["amberfs-"+page+".1"], want) {
			t.Errorf("amberfs-%s(1) has no %q", page, want)
		}
	}
	there, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, e := range there {
		if _, ok := pages[e.Name()]; !ok && *update {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		} else if !ok {
			t.Errorf("there is no command for %s: run go generate ./cmd/amberfs", e.Name())
		}
	}
	for name, want := range pages {
		file := filepath.Join(dir, name)
		if *update {
			must.OK(t, os.WriteFile(file, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s differs from the help texts (%v): run go generate ./cmd/amberfs", name, err)
		}
	}
}

// laidOut rewrites the help text of a command, and of the commands below it, as Markdown, from which the man pages
// are made. In Markdown, a line that is only indented would be joined with the next one.
func laidOut(c *cobra.Command) {
	c.Long = indented.ReplaceAllStringFunc(c.Long, func(block string) string {
		items := item.FindAllStringSubmatch(block, -1)
		if len(items) == 0 { // an example of a command line
			return "\n" + line.ReplaceAllString(block, "  $0") + "\n"
		}
		var list strings.Builder
		for _, i := range items {
			list.WriteString("\n" + i[1] + "\n: " + strings.Join(strings.Fields(i[2]), " ") + "\n")
		}
		return list.String() + "\n"
	})
	for _, sub := range c.Commands() {
		laidOut(sub)
	}
}

var (
	line     = regexp.MustCompile(`(?m)^.+`)
	indented = regexp.MustCompile(`(?m)(?:^  .*(?:\n|\z))+`)
	// An item begins with one or more words. Two or more spaces and the meaning follow, which may have several
	// lines.
	item = regexp.MustCompile(`(?m)^  (\S+(?: \S+)*) {2,}(\S.*(?:\n {4,}.*)*)`)
)

// manSections are the sections of every man page that come before SEE ALSO.
var manSections = `
.SH EXIT STATUS
` + exitStatusLine() + `
.SH FILES
.TP
.I STORE/amberfs.log
the daemon's log
.TP
.I ~/.cache/amberfs
the cache of remotes
.TP
.I ~/.config/amberfs/age-identity.txt
the key for encrypted remotes
.SH ENVIRONMENT
`

// exitStatusLine returns all exit statuses in one line: "0 done; 1 failed; ….".
func exitStatusLine() string {
	var all []string
	for _, s := range errs.ExitStatuses() {
		short := s.Description[:strings.IndexAny(s.Description+",", ",:")] // such as "wrong usage"
		all = append(all, fmt.Sprintf("%d %s", s.Status, short))
	}
	return strings.Join(all, "; ") + "."
}

// addPages adds the pages of a command and of the commands below it.
func addPages(t *testing.T, pages map[string]string, c *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			addPages(t, pages, sub)
		}
	}
	var b strings.Builder
	must.OK(t, doc.GenMan(c, &doc.GenManHeader{Section: "1", Date: &time.Time{}, Source: "amberfs", Manual: "amberfs"}, &b))
	page := strings.NewReplacer(`"Jan 0001"`, `""`, ".SH EXAMPLE\n", ".SH EXAMPLES\n", "[=false]", "", `=""`, "").Replace(b.String())
	page, also, found := strings.Cut(page, ".SH SEE ALSO")
	page = strings.TrimRight(page, "\n") + "\n"
	if !c.HasParent() {
		page += ".SH COMMANDS\n"
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				page += ".TP\n.B amberfs-" + sub.Name() + "(1)\n" + sub.Short + "\n"
			}
		}
	}
	page += strings.TrimPrefix(manSections, "\n")
	for _, v := range env.Vars {
		page += ".TP\n.B " + strings.Join(v.Names, ", ") + "\n" + strings.ReplaceAll(v.Purpose, "`", "") + "\n"
	}
	if found {
		page += ".SH SEE ALSO" + also
	}
	pages[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = page
}

// pageOf returns a page of the reference as a man page. Each row of a table becomes an item of a list, because
// tables are too wide for a terminal. Links become plain text.
func pageOf(t *testing.T, page, title, about string) string {
	b, err := os.ReadFile("../../docs/reference/" + page)
	must.OK(t, err)
	_, text, _ := strings.Cut(string(b), "\n")
	var out strings.Builder
	name, _, _ := strings.Cut(title, " ")
	out.WriteString("% " + title + "\n# NAME\n" + name + " - " + about + "\n# DESCRIPTION\n")
	head := true // the next row is the head of a table
	for line := range strings.Lines(link.ReplaceAllString(text, "$1")) {
		if !strings.HasPrefix(line, "|") {
			out.WriteString(line)
			head = true
			continue
		}
		if head || strings.HasPrefix(line, "|---") {
			head = false
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "|\n"), `\|`, "\x00"), "|")
		var texts []string
		for i := range cells {
			if cells[i] = strings.TrimSpace(cells[i]); i > 0 && cells[i] != "" {
				texts = append(texts, cells[i])
			}
		}
		out.WriteString(strings.ReplaceAll("\n"+cells[0]+"\n: "+strings.Join(texts, "; ")+"\n", "\x00", "|"))
	}
	return string(md2man.Render([]byte(out.String())))
}

var link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
