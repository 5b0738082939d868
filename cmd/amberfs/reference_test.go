package main

//go:generate go test -run "TestReference|TestExitStatuses" -count=1 . -update

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/mountopt"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write the generated pages of docs/reference and packaging/man")

// TestReference compares the generated pages of docs/reference with the code.
func TestReference(t *testing.T) {
	for name, want := range map[string]string{
		"commands.md":      commandsPage(),
		"mount-options.md": mountOptionsPage(),
		"mcp.md":           mcpPage(),
	} {
		file := "../../docs/reference/" + name
		if *update {
			must.OK(t, os.WriteFile(file, []byte(want), 0o644))
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s differs from the code (%v): run go generate ./cmd/amberfs", name, err)
		}
	}
}

// TestExitStatuses compares the list at the end of docs/reference/errors.md with the code.
func TestExitStatuses(t *testing.T) {
	const file, head = "../../docs/reference/errors.md", "| status | meaning |\n|---|---|\n"
	page, err := os.ReadFile(file)
	must.OK(t, err)
	above, got, _ := strings.Cut(string(page), head)

	var want strings.Builder
	for _, s := range errs.ExitStatuses() {
		fmt.Fprintf(&want, "| %d | %s |\n", s.Status, s.Description)
	}

	if *update {
		must.OK(t, os.WriteFile(file, []byte(above+head+want.String()), 0o644))
	} else if got != want.String() {
		t.Errorf("%s differs from the code: run go generate ./cmd/amberfs", file)
	}
}

func commandsPage() string {
	var b strings.Builder
	b.WriteString(`# Commands

Generated from the help texts. ` + "`amberfs help COMMAND`" + ` prints the same.

Commands work from any directory inside a mount. Paths are relative to the current directory. If the socket of the store is unreachable (in a sandbox, as another user), commands use ` + "`.snapshots/call`" + `.

Flags of every command:

`)
	root := newRoot(&app{})
	b.WriteString("```\n")
	flagRows(&b, root.PersistentFlags())
	b.WriteString("```\n")
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID && !c.Hidden {
				commandSection(&b, c)
			}
		}
	}
	return b.String()
}

// commandSection writes a command and the commands below it.
func commandSection(b *strings.Builder, c *cobra.Command) {
	path, _, _ := strings.Cut(c.CommandPath(), " [")
	fmt.Fprintf(b, "\n### %s\n\n", strings.TrimPrefix(path, "amberfs "))
	use := strings.TrimPrefix(c.UseLine(), c.Root().Name()+" ")
	fmt.Fprintf(b, "`amberfs %s`\n\n", use)
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	long = strings.Replace(long, mountopt.Help(), "[the mount options](mount-options.md).\n", 1)
	b.WriteString(markdown(long))
	var rows strings.Builder
	flagRows(&rows, c.NonInheritedFlags())
	if rows.Len() > 0 {
		b.WriteString("\n```\n" + rows.String() + "```\n")
	}
	for _, sub := range c.Commands() {
		if !sub.Hidden {
			commandSection(b, sub)
		}
	}
}

// markdown converts a help text to Markdown: indented lines become a block of code, and the lines of a paragraph
// become one line.
func markdown(long string) string {
	var b strings.Builder
	code, paragraph := false, false
	for line := range strings.SplitSeq(strings.TrimRight(long, "\n"), "\n") {
		indented := strings.HasPrefix(line, "  ") || code && line == ""
		if paragraph && (indented || line == "") {
			b.WriteString("\n")
			paragraph = false
		}
		switch {
		case indented && !code:
			b.WriteString("\n```\n")
			code = true
		case !indented && code:
			b.WriteString("```\n\n")
			code = false
		}
		switch {
		case code:
			if line != "" {
				b.WriteString(line[2:] + "\n")
			}
		case line == "":
			b.WriteString("\n")
		default:
			if paragraph {
				b.WriteString(" ")
			}
			b.WriteString(line)
			paragraph = true
		}
	}
	if code {
		b.WriteString("```")
	}
	b.WriteString("\n")
	return b.String()
}

func flagRows(b *strings.Builder, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if value != "" {
			name += " " + value
		}
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, "%s\n    %s\n", name, usage)
	})
}

func mountOptionsPage() string {
	return `# Mount options

Generated from the code. Options follow ` + "`-o`" + ` of ` + "`amberfs mount`" + ` and ` + "`amberfs run`" + `, separated by commas, or stand in the fourth column of fstab(5). Of two that contradict each other the later one counts. An unknown option is refused.

|option|meaning|
|---|---|
` + mountOptionRows() + `
The generic options of mount(8) and fstab(5), such as ` + "`defaults`, `noauto`, `user`, `nofail`, `noatime` and `x-…`" + `, are accepted.
`
}

// mountOptionRows returns the mount options of the help text as rows of a table.
func mountOptionRows() string {
	var b strings.Builder
	for line := range strings.Lines(mountopt.Help()) {
		words, help, _ := strings.Cut(strings.TrimSpace(line), "  ")
		words = strings.ReplaceAll(strings.ReplaceAll(words, "|", `\|`), ", ", "`, `")
		fmt.Fprintf(&b, "|`%s`|%s|\n", words, strings.TrimSpace(help))
	}
	return b.String()
}

func mcpPage() string {
	var b, other strings.Builder
	b.WriteString(`# MCP tools

Generated from the code: the tools of [amberfs mcp](commands.md#mcp).

- Resources: ` + "`amberfs://snapshot/NAME/PATH`" + `, the files of snapshots. Prompts: ` + "`snapshot`, `rewind`, `review`" + `.
- Every tool takes ` + "`workspace`" + `, the name of a fork. Tools with long texts (marked …) return pages of 40 KiB and take ` + "`start_index` and `max_length`" + `.
- Only ` + "`--tools all`" + ` offers tools that execute.

|tool|arguments|effect| |
|---|---|---|---|
`)
	for _, t := range tools() {
		names := strings.Fields(t.Args)
		for i := range names {
			names[i], _, _ = strings.Cut(names[i], "=")
		}
		args, effect := "", t.effect.String()
		if len(names) > 0 {
			args = "`" + strings.Join(names, "`, `") + "`"
		}
		if t.isPaged {
			args += " …"
		}
		if t.effect > service.Adds {
			effect = "**" + effect + "**"
		}
		if name := t.Names[service.ToolsAll]; name != "" {
			fmt.Fprintf(&b, "|`%s`|%s|%s|%s|\n", name, args, effect, t.About)
		}
		if name := t.Names[service.ToolsSnapshots]; name != "" {
			fmt.Fprintf(&other, "`%s`, ", name)
		}
	}
	fmt.Fprintf(&b, `
`+"`--tools snapshots`"+` offers %[1]s with `+"`format`"+` too. `+"`--tools workspace:NAME`"+` offers `+"`workspace__NAME__snapshot`, `__restore` and `__branch`"+`. Each returns a `+"`ref`"+`, and each accepts every such `+"`ref`: `SNAPSHOT`, `FORK`, `FORK/FORK` or `FORK@SNAPSHOT`"+`.
`, strings.TrimSuffix(other.String(), ", "))
	return b.String()
}
