package question

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// gitText returns a line about the changes of a repository.
func gitText(g group) string {
	text := "git: "
	if dir := path.Dir(g.dir); dir != "." && path.Base(g.dir) == ".git" {
		text = "git in " + dir + ": "
	} else if path.Base(g.dir) != ".git" {
		text = "git in " + g.dir + ": "
	}

	lines := g.repo.Lines
	if len(g.changes) > 0 {
		lines = append(slices.Clone(lines), g.countsText())
	}

	text += strings.Join(lines, ", ")
	if g.repo.Target != "" {
		text += " (the repository is " + g.repo.Target + ")"
	}

	return gitquote.ReadableName(text)
}

// commitSubjects returns the subjects of the newest commits, a few of each branch, that a repository would get.
func commitSubjects(g group) (out []string) {
	for _, s := range g.repo.Commits {
		out = append(out, gitquote.ReadableName(s))
	}
	return out
}

// resolveBranches asks what to do with the branches of a repository that both sides moved.
func (q *Question) resolveBranches(ctx context.Context, g group) error {
	q.setChoice(g, hostdir.Choice{})

	for _, d := range g.repo.Diverged {
		if err := q.resolveBranch(ctx, g, d); err != nil {
			return err
		}
	}

	return nil
}

// resolveBranch asks what to do with one branch that both sides moved, and records the choice.
func (q *Question) resolveBranch(ctx context.Context, g group, d *threeway.Diverged) error {
	branch, words, prompt := gitquote.ReadableName(d.Branch), []string{"keep", "theirs", "stop"}, "  [t]heirs, of "+gitquote.ReadableName(q.theirs)+"  [s]top: "
	help := q.branchHelp(d)
	if d.Head && d.NoMerge == "" {
		words, prompt = append(words, "merge"), "  [m]erge"+prompt
	}

	answer := "merge"
	if !q.MergeBranches || !d.Head || d.NoMerge != "" {
		fmt.Fprint(q.terminal.Out, branch+" moved on both sides\n"+help)
		var err error
		if answer, err = q.askWord(ctx, branch+": [k]eep both"+prompt, words, help); err != nil {
			return err
		}
	}

	switch answer {
	case "stop":
		return errNothingApplied
	case "keep":
		q.choices[branchPath(g.dir, d)] = hostdir.Choice{ConflictRule: threeway.KeepOurs}
	case "theirs":
		q.choices[branchPath(g.dir, d)] = hostdir.Choice{ConflictRule: threeway.TakeTheirs}
	case "merge":
		q.setChoice(g, hostdir.Choice{Merge: true})
		for _, name := range d.Conflicts {
			if err := q.resolveConflict(ctx, name); err != nil {
				return err
			}
		}
	}

	return nil
}

// branchPath returns the key under which choices has the choice for a branch.
func branchPath(dir string, d *threeway.Diverged) string { return dir + "/refs/heads/" + d.Branch }

// branchHelp returns a text that describes, for each answer about a branch, the commits that it adds to the branch and
// removes from it.
func (q *Question) branchHelp(d *threeway.Diverged) string {
	commits := func(n int, subjects []string) string {
		return english.Plural(n, "commit", "commits") + ": " + strings.Join(subjects, ", ")
	}
	added, removed := commits(d.Ahead, d.Theirs), commits(d.Behind, d.Ours)
	merge := "puts on " + added
	if len(d.Conflicts) > 0 {
		merge += "; in conflict: " + strings.Join(d.Conflicts, ", ")
	}
	if d.NoMerge != "" {
		merge = "not now: " + d.NoMerge
	}

	text := "k - " + d.Branch + " stays, and " + d.Parked + " gets " + added + "\n"
	if d.Head {
		text += "m - " + merge + "\n"
	}

	text += "t - puts on " + added + "\n    and takes off " + removed + "; " + d.Parked + " keeps it"
	var out string
	for line := range strings.Lines(text) {
		out += gitquote.ReadableName(strings.TrimSuffix(line, "\n")) + "\n"
	}

	return out
}

// resolveConflict asks which version of a path in conflict the merge takes.
func (q *Question) resolveConflict(ctx context.Context, name string) error {
	c := hostdir.PlannedChange{CanHaveMarkers: q.changes != nil, Conflict: true}
	var err error
	if c.Path, err = tree.ParsePath(name); err != nil {
		return err
	}
	if q.changes == nil {
		c.After = &tree.Inode{Mode: unix.S_IFREG}
		return q.resolve(ctx, group{changes: []hostdir.PlannedChange{c}})
	}
	if c.Before, err = q.changes.Base.InodeAt(q.changes.Source, name); err == nil {
		c.After, err = q.changes.Now.InodeAt(q.changes.Source, name)
	}
	if c.Before == nil && c.After == nil {
		c.After = &tree.Inode{Mode: unix.S_IFREG}
	}

	hadUnapplied := q.HasUnapplied
	err = q.resolve(ctx, group{changes: []hostdir.PlannedChange{c}})
	q.HasUnapplied = hadUnapplied // the answer "ours" leaves no change unapplied, because the merge commit contains the change

	return err
}
