package question

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A group is one line of the question: a path, or a directory with many changes.
type group struct {
	dir         string // directory of the changes; "" for a single path
	indivisible bool   // the changes are applied together or not at all: a repository, the directory of Mercurial or jj, or a path whose type changes
	isGit       bool   // dir is the .git of a repository
	changes     []hostdir.PlannedChange
	repo        threeway.Repository // if isGit is set: the changes of the repository
}

// withRepos sets the field repo of the groups of repositories. It adds a group for a repository that has none.
func withRepos(groups []group, repos []threeway.Repository) []group {
	for _, r := range repos {
		i := slices.IndexFunc(groups, func(g group) bool { return g.isGit && g.dir == r.Dir })
		if i < 0 {
			i = len(groups)
			groups = append(groups, group{dir: r.Dir, indivisible: true, isGit: true})
		}

		groups[i].repo = r
	}
	return groups
}

// isConflict reports whether a group is a path that both sides changed.
func (g group) isConflict() bool { return len(g.changes) > 0 && g.changes[0].Conflict }

// groupChanges returns a group for each conflict, then for each other change in the order of paths, then
// for each repository. dirs are the directories that are created or deleted together with their contents;
// they are in no group.
func groupChanges(plan []hostdir.PlannedChange) (groups []group, dirs []hostdir.PlannedChange) {
	var repos, others []group
	slices.SortStableFunc(plan, func(a, b hostdir.PlannedChange) int { return tree.ComparePaths(a.Path.String(), b.Path.String()) })
	rest := slices.DeleteFunc(slices.Clone(plan), func(c hostdir.PlannedChange) bool { return c.Conflict })

	for _, c := range plan {
		if c.Conflict {
			groups = append(groups, group{changes: []hostdir.PlannedChange{c}})
		}
	}

	for n := 1; len(rest) > 0; rest = rest[n:] {
		c := rest[0]
		dir := c.Path.String()
		repo, _, git := threeway.SplitGitPath(dir + "/")
		whole, isWhole := threeway.WholeDir(c.Change)
		if git {
			dir = repo
		} else if isWhole {
			dir = whole
		}

		for n = 1; n < len(rest) && strings.HasPrefix(rest[n].Path.String(), dir+"/"); {
			n++
		}

		switch {
		case git:
			repos = append(repos, group{dir: dir, indivisible: true, isGit: true, changes: rest[:n]})
		case isWhole, c.Before != nil && c.After != nil && c.Before.IsDir() != c.After.IsDir():
			others = append(others, group{dir: dir, indivisible: true, changes: rest[:n]})
		case n > 1 && (c.Before == nil || c.After == nil):
			dirs, n = append(dirs, c), 1
		default:
			n = 1
			others = append(others, group{changes: rest[:1]})
		}
	}

	return slices.Concat(groups, others, repos), dirs
}

// foldGroups joins the groups in the directory with the most groups, and repeats this until at most
// maxGroups groups are left or none can be joined. Only directories inside root are used. Repositories and
// conflicts are not joined.
func foldGroups(groups []group, maxGroups int, root string) []group {
	for len(groups) > maxGroups {
		count, maxCount, best := map[string]int{}, 1, ""
		for _, g := range groups {
			for dir := path.Dir(g.foldPath()); dir != root && dir != "."; dir = path.Dir(dir) {
				count[dir]++
				maxCount = max(maxCount, count[dir])
			}
		}

		// Of the directories with at least 4/5 of the largest count, take the deepest.
		for dir, k := range count {
			if k > 1 && 5*k >= 4*maxCount && (len(dir) > len(best) || len(dir) == len(best) && dir > best) {
				best = dir
			}
		}
		if best == "" {
			break
		}

		rest, joined := groups[:0:0], -1

		for _, g := range groups {
			if !strings.HasPrefix(g.foldPath(), best+"/") {
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

// foldPath returns the path of a group that may be joined with others, "" for a group that may not.
func (g group) foldPath() string {
	if g.isGit || g.isConflict() {
		return ""
	}
	return cmp.Or(g.dir, g.changes[0].Path.String())
}

// printedName returns the path of a group as it is printed, with / at the end of a directory.
func (g group) printedName() string {
	if g.dir != "" {
		return gitquote.ReadableName(g.dir + "/")
	}
	c := g.changes[0]
	if !isDir(c) {
		return gitquote.ReadableName(c.Path.Short())
	}

	return gitquote.ReadableName(cmp.Or(c.Path.Short(), ".") + "/")
}

func isDir(c hostdir.PlannedChange) bool {
	return c.After == nil && c.Before.IsDir() || c.After != nil && c.After.IsDir()
}

// letterOfChange returns git's letter for a change (A, D or M), or C for a conflict.
func letterOfChange(c hostdir.PlannedChange) string {
	switch {
	case c.Conflict:
		return "C"
	case c.Before == nil:
		return "A"
	case c.After == nil:
		return "D"
	}
	return "M"
}

// changeLetter returns the letter of all changes of a group, M if they differ.
func (g group) changeLetter() string {
	if len(g.changes) == 0 {
		return "M"
	}
	letter := letterOfChange(g.changes[0])
	if slices.ContainsFunc(g.changes, func(c hostdir.PlannedChange) bool { return letterOfChange(c) != letter }) {
		return "M"
	}

	return letter
}

// countsText returns a text with the numbers of files that were added, changed and deleted.
func (g group) countsText() string {
	n := map[string]int{}
	for _, c := range g.changes {
		n[letterOfChange(c)]++
	}

	var parts []string

	for _, text := range []string{"A added", "M changed", "D deleted", "C changed on both sides"} {
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
