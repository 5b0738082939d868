package main

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/fail"
)

// What builds from a checkout set with -ldflags "-X main.version=… -X main.commit=…
// -X main.date=…". The version of a build by `go install` names its commit.
var version, commit, date string

type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // of the commit, RFC 3339
	Go      string `json:"go"`
	System  string `json:"system"`
}

// versionText is the release, or what the build knows of its source.
func versionText() string { return thisBuild().Version }

func thisBuild() build {
	info, _ := debug.ReadBuildInfo() // a module has it
	b := buildOf(info)
	b.Version = cmp.Or(version, b.Version)
	if commit != "" {
		b.Commit, b.Date = commit, date
	}
	return b
}

func buildOf(info *debug.BuildInfo) build {
	b := build{
		Version: info.Main.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}
	return b
}

// source is the commit and its date, for people.
func (b build) source() string {
	if b.Commit == "" {
		return "" // the version is a tag
	}
	return "commit " + b.Commit[:min(12, len(b.Commit))] + " of " + b.Date + ", "
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  amberfs version --json`,
		Args:    args(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.print(b, func() { a.printf("amberfs %s (%s%s, %s)\n", b.Version, b.source(), b.Go, b.System) })
		},
	}
}

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages to a directory",
		Long:    `Writes one man page for each command to DIR, for example /usr/local/share/man/man1.`,
		Example: `  amberfs man /tmp/man`,
		Args:    args(1, 1, "one DIR"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			dir, err := a.abs(argv[0])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fail.New(fail.KindOf(err), "cannot make %s: %w", argv[0], err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			laidOut(root)
			b := thisBuild()
			head := &doc.GenManHeader{Section: "1", Source: "amberfs " + b.Version, Manual: "amberfs"}
			if t, err := time.Parse(time.RFC3339, b.Date); err == nil {
				head.Date = &t // the same pages from the same source
			}
			if err := writeManPages(root, head, dir); err != nil {
				return fail.New(fail.KindOf(err), "cannot write the man pages: %w", err)
			}
			names, err := filepath.Glob(filepath.Join(dir, "amberfs*.1"))
			if err != nil {
				return err
			}
			for i, n := range names {
				names[i] = filepath.Base(n)
			}
			return a.print(map[string]any{"dir": dir, "pages": names}, func() {
				a.printf("%d pages in %s: %s\n", len(names), argv[0], strings.Join(names, " "))
			})
		},
	}
}

// laidOut rewrites the help texts below a command as Markdown, of which man pages
// are made: there a line that is only indented runs into the next.
func laidOut(c *cobra.Command) {
	c.Long = indented.ReplaceAllStringFunc(c.Long, func(block string) string {
		items := item.FindAllStringSubmatch(block, -1)
		if len(items) == 0 { // a command line
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
	// A word or two, two spaces or more, and what it means on as many lines.
	item = regexp.MustCompile(`(?m)^  (\S+(?: \S+)*) {2,}(\S.*(?:\n {4,}.*)*)`)
)

// manSections stand in every man page, before SEE ALSO.
const manSections = `
.SH EXIT STATUS
0 done; 1 failed; 2 wrong usage; 3 not found; 4 exists already; 5 busy; 6 no space; 7 damage found.
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

func writeManPages(c *cobra.Command, head *doc.GenManHeader, dir string) error {
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
			continue
		}
		if err := writeManPages(sub, head, dir); err != nil {
			return err
		}
	}
	var b strings.Builder
	h := *head // GenMan fills in the title
	if err := doc.GenMan(c, &h, &b); err != nil {
		return err
	}
	page := strings.NewReplacer(".SH EXAMPLE\n", ".SH EXAMPLES\n", "[=false]", "", `=""`, "").Replace(b.String())
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
		page += ".TP\n.B " + strings.Join(v.Names, ", ") + "\n" + strings.ReplaceAll(v.About, "`", "") + "\n"
	}
	if found {
		page += ".SH SEE ALSO" + also
	}
	name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
	return os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644)
}
