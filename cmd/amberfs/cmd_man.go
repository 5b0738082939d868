package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/amberfs/amberfs/internal/fail"
)

func manCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the man pages into a directory",
		Long: `Writes one man page a command into DIR, made when it is missing, such as
/usr/local/share/man/man1.`,
		Args: args(1, 1, "one DIR"),
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
			if err := doc.GenManTree(root, head, dir); err != nil {
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
