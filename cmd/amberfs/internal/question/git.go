package question

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// gitText says in one line what happened to a repository.
func gitText(src *tree.Source, g group) string {
	var parts []string
	objects, counted := 0, map[string]bool{}
	for _, c := range g.changes { // logs, objects, refs
		rel := strings.TrimPrefix(c.Path.String(), g.dir+"/")
		log, isLog := strings.CutPrefix(rel, "logs/refs/heads/")
		branch, isBranch := strings.CutPrefix(rel, "refs/heads/")
		switch {
		case isDir(c):
		case isLog:
			if n := len(commitsIn(src, c)); n > 0 {
				counted[log] = true
				parts = append(parts, english.Plural(n, "commit", "commits")+" on "+log)
			}
		case isBranch && !counted[branch]:
			parts = append(parts, branch+" moved")
		case strings.HasPrefix(rel, "objects/") && c.A == nil:
			objects++
		}
	}
	if objects > 0 {
		parts = append(parts, english.Plural(objects, "object", "objects"))
	}
	text := "git: "
	if dir := path.Dir(g.dir); dir != "." {
		text = "git in " + dir + ": "
	}
	return gitquote.Readable(text + cmp.Or(strings.Join(parts, ", "), g.counts()))
}

// commitsIn returns the subjects of the commits that were added to a log of git's.
func commitsIn(src *tree.Source, c gitbridge.Planned) (out []string) {
	from := int64(0)
	if c.B == nil || !c.B.IsRegular() {
		return nil
	}
	if c.A != nil && c.A.IsRegular() {
		from = min(c.A.Size(), c.B.Size())
	}
	const most = 1 << 20
	text, _ := io.ReadAll(io.NewSectionReader(c.B.Content.Reader(src.Files), from, min(most, c.B.Size()-from))) // only shown
	for line := range strings.Lines(string(text)) {
		_, did, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if what, subject, ok := strings.Cut(did, ": "); ok && commitWords.MatchString(what) {
			out = append(out, subject)
		}
	}
	return out
}

// commitWords begin the lines of logs that are about new commits.
var commitWords = regexp.MustCompile(`^(commit|cherry-pick|revert|am|merge|rebase \((pick|reword|edit|squash|fixup)\))( |$)`)

// subjects are those of the commits of a repository, the last few of each branch.
func subjects(src *tree.Source, g group) (out []string) {
	const most = 5
	for _, c := range g.changes {
		if !strings.HasPrefix(strings.TrimPrefix(c.Path.String(), g.dir+"/"), "logs/refs/heads/") {
			continue
		}
		all := commitsIn(src, c)
		if n := len(all) - most; n > 0 {
			out = append(out, fmt.Sprintf("%d more, and", n))
		}
		for _, s := range all[max(0, len(all)-most):] {
			out = append(out, "  "+gitquote.Readable(s))
		}
	}
	return out
}
