package question

import (
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// gitText says in one line what happens to a repository.
func gitText(g group) string {
	text := "git: "
	if dir := path.Dir(g.dir); dir != "." && path.Base(g.dir) == ".git" {
		text = "git in " + dir + ": "
	} else if path.Base(g.dir) != ".git" {
		text = "git in " + g.dir + ": "
	}
	lines := g.repo.Lines
	if len(g.changes) > 0 {
		lines = append(slices.Clone(lines), g.counts())
	}
	text += strings.Join(lines, ", ")
	if g.repo.Target != "" {
		text += " (the repository is " + g.repo.Target + ")"
	}
	return gitquote.Readable(text)
}

// subjects are those of the commits that a repository gets, the last few of each branch.
func subjects(g group) (out []string) {
	for _, s := range g.repo.Commits {
		out = append(out, gitquote.Readable(s))
	}
	return out
}
