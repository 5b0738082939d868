package docs_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write llms.txt")

// TestLLMs: llms.txt, which agents read first, is the head of the plugin's skill, the commands of the tutorial
// and the index of the documentation.
func TestLLMs(t *testing.T) {
	all := pages(t)
	skill, err := os.ReadFile(filepath.Join(root, "plugin/portable/skills/amberfs/SKILL.md"))
	must.OK(t, err)
	_, _, ok := strings.Cut(string(skill), "\n---\n")
	if !ok {
		t.Fatal("the skill has no head")
	}

	var b strings.Builder
	b.WriteString("# amberfs\n\n> Snapshots, forks and undo for the files of a project, while coding agents work on it. Linux, FUSE, no root.\n\n")
	b.WriteString("Generated from the documentation.\n\n## In a workspace or run\n")
	b.WriteString(string(skill)[strings.LastIndex(string(skill), "\n---\n")+len("\n---\n"):])
	b.WriteString("\n## The tutorial, as commands\n\n```sh\n" + strings.Join(tutorialCommands(all["docs/tutorials/agent.md"]), "\n") + "\n```\n")

	for line := range strings.Lines(all["docs/README.md"]) {
		line = strings.ReplaceAll(line, "](../", "](")
		for _, folder := range []string{"tutorials", "how-to", "reference", "explanation", "dev"} {
			line = strings.ReplaceAll(line, "]("+folder+"/", "](docs/"+folder+"/")
		}
		if !strings.HasPrefix(line, "# ") {
			b.WriteString(line)
		}
	}

	file := filepath.Join(root, "llms.txt")
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("llms.txt differs from the documentation (%v): go test ./tests/docs -run TestLLMs -update", err)
	}
}

// tutorialCommands are the lines that a page has its reader type.
func tutorialCommands(page string) (out []string) {
	for _, block := range fence.FindAllString(page, -1) {
		if strings.HasPrefix(block, "```sh") {
			lines := strings.Split(block, "\n")
			out = append(out, lines[1:len(lines)-1]...)
			continue
		}
		for line := range strings.Lines(block) {
			for _, prompt := range []string{"$ ", "> "} {
				if command, ok := strings.CutPrefix(line, prompt); ok {
					out = append(out, strings.TrimSuffix(command, "\n"))
				}
			}
		}
	}
	return out
}
