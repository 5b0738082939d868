package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A group is what the question has in one line: a path, or a directory with many.
type group struct {
	dir     string // of many
	whole   bool   // it is not divided: a repository, or a path whose type changes
	git     bool   // dir is the .git of a repository
	changes []gitbridge.Planned
}

// grouped returns the conflicts, the other changes in the order of paths, the
// repositories, and apart from these the directories that come or go with what is in them.
func grouped(plan []gitbridge.Planned) (groups []group, dirs []gitbridge.Planned) {
	var repos, others []group
	order := func(c gitbridge.Planned) string { return strings.ReplaceAll(c.Path.String(), "/", "\x00") }
	slices.SortFunc(plan, func(a, b gitbridge.Planned) int { return strings.Compare(order(a), order(b)) })
	rest := slices.DeleteFunc(slices.Clone(plan), func(c gitbridge.Planned) bool { return c.Conflict })
	for _, c := range plan {
		if c.Conflict {
			groups = append(groups, group{changes: []gitbridge.Planned{c}})
		}
	}
	for n := 1; len(rest) > 0; rest = rest[n:] {
		c := rest[0]
		dir := c.Path.String()
		repo, _, git := threeway.InGit(dir + "/")
		if git {
			dir = repo
		}
		for n = 1; n < len(rest) && strings.HasPrefix(rest[n].Path.String(), dir+"/"); {
			n++
		}
		switch {
		case git:
			repos = append(repos, group{dir: dir, whole: true, git: true, changes: rest[:n]})
		case c.A != nil && c.B != nil && c.A.IsDir() != c.B.IsDir():
			others = append(others, group{dir: dir, whole: true, changes: rest[:n]})
		case n > 1 && (c.A == nil || c.B == nil):
			dirs, n = append(dirs, c), 1
		default:
			n = 1
			others = append(others, group{changes: rest[:1]})
		}
	}
	return slices.Concat(groups, others, repos), dirs
}

// folded joins the groups of the directories that have most below one, until at most n
// are left or nothing can be joined. Repositories and conflicts stay alone.
func folded(groups []group, n int, below string) []group {
	for len(groups) > n {
		count, most, best := map[string]int{}, 1, ""
		for _, g := range groups {
			for dir := path.Dir(g.foldable()); dir != below && dir != "."; dir = path.Dir(dir) {
				count[dir]++
				most = max(most, count[dir])
			}
		}
		for dir, k := range count { // the lowest that has nearly all of the largest
			if k > 1 && 5*k >= 4*most && (len(dir) > len(best) || len(dir) == len(best) && dir > best) {
				best = dir
			}
		}
		if best == "" {
			break
		}
		rest, joined := groups[:0:0], -1
		for _, g := range groups {
			if !strings.HasPrefix(g.foldable(), best+"/") {
				rest = append(rest, g)
				continue
			}
			if joined < 0 {
				joined, rest = len(rest), append(rest, group{dir: best})
			}
			rest[joined].changes = append(rest[joined].changes, g.changes...)
		}
		groups = rest
	}
	return groups
}

// foldable is the path of a group that may be joined with others, else "".
func (g group) foldable() string {
	if g.git || g.changes[0].Conflict {
		return ""
	}
	return cmp.Or(g.dir, g.changes[0].Path.String())
}

func (g group) name() string {
	if c := g.changes[0]; g.dir == "" && !isDir(c) {
		return quote(c.Path.Short())
	}
	return quote(cmp.Or(g.dir, g.changes[0].Path.Short()) + "/")
}

func isDir(c gitbridge.Planned) bool { return c.B == nil && c.A.IsDir() || c.B != nil && c.B.IsDir() }

// letterOf is that of git, or C for a conflict.
func letterOf(c gitbridge.Planned) string {
	switch {
	case c.Conflict:
		return "C"
	case c.A == nil:
		return "A"
	case c.B == nil:
		return "D"
	}
	return "M"
}

func (g group) letter() string {
	letter := letterOf(g.changes[0])
	if slices.ContainsFunc(g.changes, func(c gitbridge.Planned) bool { return letterOf(c) != letter }) {
		return "M"
	}
	return letter
}

// counts is how many files came, changed and went.
func (g group) counts() string {
	n := map[string]int{}
	for _, c := range g.changes {
		n[letterOf(c)]++
	}
	var parts []string
	for _, text := range []string{"A added", "M changed", "D deleted"} {
		k, text := n[text[:1]], text[1:]
		if len(parts) == 0 {
			text = " " + english.PluralWord(k, "file", "") + text
		}
		if k > 0 {
			parts = append(parts, humanize.Comma(int64(k))+text)
		}
	}
	return strings.Join(parts, ", ")
}

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
				parts = append(parts, plural(n, "commit", "commits")+" on "+log)
			}
		case isBranch && !counted[branch]:
			parts = append(parts, branch+" moved")
		case strings.HasPrefix(rel, "objects/") && c.A == nil:
			objects++
		}
	}
	if objects > 0 {
		parts = append(parts, plural(objects, "object", "objects"))
	}
	text := "git: "
	if dir := path.Dir(g.dir); dir != "." {
		text = "git in " + dir + ": "
	}
	return quote(text + cmp.Or(strings.Join(parts, ", "), g.counts()))
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
			out = append(out, "  "+quote(s))
		}
	}
	return out
}

// askGroup asks for a group and records the choice, unless the answer is to split it or to go
// back.
func (q *question) askGroup(ctx context.Context, g group) (answer string, err error) {
	c := g.changes[0]
	if c.Conflict {
		return "", q.settle(ctx, g)
	}
	answers := "ynbq"
	if len(g.changes) > 1 && !g.whole {
		answers = "ynsbq"
	} else if !g.whole {
		t, err := diff.TextOfChange(ctx, q.ch.Source, c.Change)
		if err != nil {
			return "", err
		}
		if c.A != nil && c.B != nil && c.A.IsRegular() && c.B.IsRegular() && len(t.Hunks) > 0 {
			return q.askHunks(ctx, g, t.Hunks)
		}
		q.printHunks(t.Hunks)
		if len(t.Hunks) > 0 && c.B != nil && c.B.IsRegular() {
			answers = "ynebq"
		}
	}
	text, err := q.text(ctx, g, 0)
	if err != nil {
		return "", err
	}
	answer, err = q.oneOf(ctx, "apply "+text, answers)
	switch {
	case err != nil || answer == "s" || answer == "b":
	case answer == "e":
		err = q.edit(g)
	default:
		q.set(g, gitbridge.Choice{Leave: answer == "n"})
	}
	return answer, err
}

func (q *question) printHunks(hunks []diff.Hunk) {
	out := &diffWriter{a: q.a, w: q.a.stderr, color: q.a.color(), inPatch: true}
	for _, h := range hunks {
		fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@ %s\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section)
		for _, l := range h.Lines {
			fmt.Fprintf(out, "%s%s\n", l.Op, l.Text)
		}
	}
}

// askHunks asks for the hunks of a text file.
func (q *question) askHunks(ctx context.Context, g group, hunks []diff.Hunk) (string, error) {
	fmt.Fprintln(q.a.stderr, q.paint(g.name(), colorBold))
	taken, answer := make([]bool, len(hunks)), ""
	for i := 0; i < len(hunks); i++ {
		if answer != "a" && answer != "d" && !q.quit && q.search == "" {
			q.printHunks(hunks[i : i+1])
			var err error
			answer, err = q.oneOf(ctx, fmt.Sprintf("apply part %d of %d", i+1, len(hunks)), "ynadebq")
			switch {
			case err != nil:
				return "", err
			case answer == "e":
				return "", q.edit(g)
			case answer == "b" && i == 0:
				return "b", nil
			case answer == "b":
				i -= 2
				continue
			}
		}
		taken[i] = (answer == "y" || answer == "a") && q.search == ""
	}
	var chosen []diff.Hunk
	for i, h := range hunks {
		if taken[i] {
			chosen = append(chosen, h)
		}
	}
	if len(chosen) == 0 || len(chosen) == len(hunks) {
		q.set(g, gitbridge.Choice{Leave: len(chosen) == 0})
		return "", nil
	}
	c := g.changes[0]
	var sides [2]string
	for i, n := range []io.Reader{c.A.Content.Reader(q.ch.Source.Files), c.B.Content.Reader(q.ch.Source.Files)} {
		b, err := io.ReadAll(n)
		if err != nil {
			return "", err
		}
		sides[i] = string(b)
	}
	q.set(g, gitbridge.Choice{Text: withHunks(sides[0], sides[1], chosen)})
	q.left = true
	return "", nil
}

// withHunks is the text before with some of the hunks that lead to the text after.
func withHunks(before, after string, hunks []diff.Hunk) []byte {
	a, b := strings.SplitAfter(before, "\n"), strings.SplitAfter(after, "\n")
	out, at := []byte{}, 0
	for _, h := range hunks {
		out = append(out, strings.Join(a[at:h.OldStart-1], "")...)
		out = append(out, strings.Join(b[h.NewStart-1:h.NewStart-1+h.NewLines], "")...)
		at = h.OldStart - 1 + h.OldLines
	}
	return append(out, strings.Join(a[at:], "")...)
}
