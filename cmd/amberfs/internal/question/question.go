// Package question asks at a terminal which of the changes of a workspace are applied to a
// directory: all, none, or some by file and by part of a file.
package question

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/executes"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
)

// A Terminal is the terminal at which questions are asked.
type Terminal struct {
	In      io.Reader
	Out     io.Writer
	Color   bool
	Verbose bool // list all changes
	// Page shows the output of write in a pager, and reports whether there was output.
	Page func(write func(io.Writer) error) (hasOutput bool, err error)
	// Run runs a program at the terminal.
	Run func(*exec.Cmd) error
}

// A Question shows the changes that an apply would make, and asks which of them to apply.
type Question struct {
	Removable     bool // the changes are of a run that can be removed
	HasUnapplied  bool // some changes were not chosen
	RemoveRun     bool // the answer is to remove the run
	MergeBranches bool // branches that moved on both sides are merged, without asking

	terminal Terminal
	changes  *client.Changes // nil for the question about a merge
	dir      string          // the directory to which changes are applied
	ours     string          // name of the side that is changed
	theirs   string          // name of the other side
	groups   []group
	dirs     []hostdir.PlannedChange // directories that are created or deleted together with their contents
	leftOut  []string                // paths that apply leaves out
	hidden   []string                // see hostdir.ApplyResult.Hidden
	notes    []stream.Omission
	in       *bufio.Reader

	choices       map[string]hostdir.Choice // by path; a choice is also used for all paths below its path
	leaveUnchosen bool                      // changes without a choice are not applied
	isEnded       bool                      // the user ended the questions: changes without an answer are not applied
	searchText    string                    // if set, changes without this text in their paths or lines are skipped
}

// errNothingApplied ends a question without an answer.
var errNothingApplied = errs.Fail(errs.Failed, "nothing was applied")

// New returns the question about a plan, the result of a dry run of an apply to dir. The rule determines what
// happens to the paths in conflict:
//
//   - KeepOurs: New removes these paths from the plan.
//   - TakeTheirs: New changes the plan, so that these paths are no longer conflicts.
//   - RefuseConflicts: the question asks about these paths.
func New(t Terminal, ch *client.Changes, dir string, rule threeway.Rule, plan *hostdir.ApplyResult) *Question {
	q := &Question{terminal: t, changes: ch, dir: dir, ours: dir, theirs: "the workspace", in: bufio.NewReader(t.In), choices: make(map[string]hostdir.Choice)}
	plan.Plan = slices.DeleteFunc(plan.Plan, func(c hostdir.PlannedChange) bool { return c.Conflict && rule == threeway.KeepOurs })
	for i := range plan.Plan {
		plan.Plan[i].Conflict = plan.Plan[i].Conflict && rule == threeway.RefuseConflicts
	}

	q.groups, q.dirs = groupChanges(plan.Plan)

	for i := range plan.Git {
		if rule != threeway.RefuseConflicts {
			plan.Git[i].Diverged = nil
		}
	}

	q.groups = withRepos(q.groups, plan.Git)
	q.leftOut, q.hidden, q.notes = plan.LeftOut, plan.Hidden, plan.Notes
	return q
}

// AskYesNo asks a question that has two answers, and reports whether the answer is yes.
func AskYesNo(ctx context.Context, t Terminal, prompt string) (bool, error) {
	q := &Question{terminal: t, in: bufio.NewReader(t.In)}
	answer, err := q.readLine(ctx, prompt)
	return answer == "y" || answer == "yes", err
}

// Empty reports whether there is no change to ask about.
func (q *Question) Empty() bool { return len(q.groups) == 0 }

// maxPrinted is the maximum number of changes that are listed. Only the number of further changes is printed.
const maxPrinted = 20

// Print lists the changes: files, repositories, and warnings about files that other programs
// execute.
func (q *Question) Print(ctx context.Context) error {
	groups := q.groups
	if !q.terminal.Verbose {
		groups = foldGroups(groups, maxPrinted, ".")
	}

	width, unlisted := 0, 0
	for _, g := range groups {
		width = min(60, max(width, utf8.RuneCountInString(g.printedName())))
	}

	for i, g := range groups {
		if i >= maxPrinted && !q.terminal.Verbose && !g.isGit {
			unlisted++
			continue
		}

		text, err := q.groupText(ctx, g, width)
		if err != nil {
			return err
		}

		fmt.Fprintln(q.terminal.Out, text)

		if g.isGit {
			for _, s := range commitSubjects(g) {
				fmt.Fprintln(q.terminal.Out, s)
			}
		}
	}

	if unlisted > 0 {
		fmt.Fprintf(q.terminal.Out, "and %d more\n", unlisted)
	}
	if len(q.leftOut) > 0 {
		fmt.Fprintln(q.terminal.Out, LeftOutText(q.leftOut, q.terminal.Verbose))
	}
	fmt.Fprint(q.terminal.Out, service.HiddenText(q.hidden))

	for i, n := range q.notes {
		if i == maxPrinted && !q.terminal.Verbose {
			fmt.Fprintf(q.terminal.Out, "and %d more of these\n", len(q.notes)-i)
			break
		}

		fmt.Fprintln(q.terminal.Out, q.paint("careful, "+gitquote.ReadableName(n.Path)+": "+n.Reason, styles.Bold+styles.Red))
	}

	for _, g := range q.groups {
		for _, c := range g.changes {
			if executes.IsExecuted(c.Path.String(), c.After) {
				fmt.Fprintln(q.terminal.Out, q.paint(ExecutedWarning(c.Path.String()), styles.Bold+styles.Red))
			}
		}
	}

	return nil
}

// ExecutedWarning returns the warning about a path that other programs execute.
func ExecutedWarning(path string) string {
	return "careful, other programs execute this: " + gitquote.ReadableName(path)
}

func (q *Question) paint(text, color string) string {
	if !q.terminal.Color {
		return text
	}
	return color + text + styles.Reset
}

var letterColors = map[string]string{"A": styles.Green, "D": styles.Red, "M": styles.Cyan, "C": styles.Bold + styles.Red, "+": styles.Green, "-": styles.Red}

// groupText returns the line about a group, with the name in a column of the given width.
func (q *Question) groupText(ctx context.Context, g group, width int) (string, error) {
	if g.isGit {
		return gitText(g), nil
	}
	c, letter := g.changes[0], g.changeLetter()
	var parts []string

	switch {
	case len(g.changes) > 1:
		parts = append(parts, g.countsText())
	case c.Conflict:
		parts = append(parts, "changed on both sides")
	default:
		t, err := diff.TextOfChange(ctx, q.changes.Source, c.Change)
		if err != nil {
			return "", err
		}
		if t.Binary || t.TooLarge {
			parts = append(parts, "binary, "+humanize.IBytes(uint64(max(t.OldSize, 0)))+" to "+humanize.IBytes(uint64(max(t.NewSize, 0))))
		}

		lines := map[string]int{}
		for _, h := range t.Hunks {
			for _, l := range h.Lines {
				lines[l.Op]++
			}
		}

		for _, op := range []string{"+", "-"} {
			if lines[op] > 0 {
				parts = append(parts, q.paint(fmt.Sprint(op, lines[op]), letterColors[op]))
			}
		}

		if c.Before != nil && c.After != nil && c.Before.Type() == c.After.Type() && c.Before.Mode != c.After.Mode {
			parts = append(parts, fmt.Sprintf("mode %o to %o", c.Before.Mode&0o7777, c.After.Mode&0o7777))
		}
	}

	line := fmt.Sprintf("%s  %-*s  %s", q.paint(letter, letterColors[letter]), width, g.printedName(), strings.Join(parts, " "))
	return strings.TrimRight(line, " "), nil
}

// maxUnconfirmedFiles is the maximum number of changed files of a run that is removed without a second question.
const maxUnconfirmedFiles = 20

// confirmRemoval asks again before a run with commits or many files is removed.
func (q *Question) confirmRemoval(ctx context.Context) (bool, error) {
	if len(q.Commits()) == 0 && len(q.changedFiles().changes) <= maxUnconfirmedFiles {
		return true, nil
	}
	answer, err := q.readLine(ctx, "remove "+q.Summary()+"? Type discard again: ")
	return answer == "discard", err
}

// changedFiles returns a group of all changed files outside of repositories.
func (q *Question) changedFiles() (g group) {
	for _, group := range q.groups {
		for _, c := range group.changes {
			if !group.isGit && !isDir(c) {
				g.changes = append(g.changes, c)
			}
		}
	}
	return g
}

// Summary returns a text with the numbers of changed files and the changes of repositories.
func (q *Question) Summary() string {
	var parts []string
	if g := q.changedFiles(); len(g.changes) > 0 {
		parts = append(parts, english.Plural(len(g.changes), "file", "files")+" ("+g.countsText()+")")
	}

	for _, g := range q.groups {
		if g.isGit {
			parts = append(parts, gitText(g))
		}
	}
	if len(parts) == 0 && len(q.leftOut) > 0 && q.Empty() {
		return english.Plural(len(q.leftOut), "path", "paths") + " that apply leaves out"
	}

	switch paths := len(q.groups) + len(q.dirs); {
	case len(parts) == 0 && paths == 0:
		return "nothing but times"
	case len(parts) == 0:
		return english.Plural(paths, "path", "paths")
	}

	return strings.Join(parts, "; ")
}

// Commits returns the subjects of new commits, a few of each repository, the newest last.
func (q *Question) Commits() (out []string) {
	for _, g := range q.groups {
		if g.isGit {
			out = append(out, commitSubjects(g)...)
		}
	}
	return out
}

// setChoice records the choice for all changes of a group.
func (q *Question) setChoice(g group, c hostdir.Choice) {
	q.HasUnapplied = q.HasUnapplied || c.Leave
	if g.indivisible {
		q.choices[g.dir] = c
	}
	for _, p := range g.changes {
		q.choices[p.Path.String()] = c
	}
}

// Choose returns the choice for a path. It is the function Choose of hostdir.ApplyOptions.
func (q *Question) Choose(p string) hostdir.Choice {
	for ; p != "."; p = path.Dir(p) {
		if c, ok := q.choices[p]; ok {
			return c
		}
	}
	return hostdir.Choice{Leave: q.leaveUnchosen}
}

// LeftOutText returns a text with the paths that an apply leaves out, at most maxPrinted of them unless
// unlimited is set.
func LeftOutText(paths []string, unlimited bool) string {
	text := english.Plural(len(paths), "path", "paths") + " left out (.amberignore, and what amberfs wrote for agents; --no-ignore takes all but links to forks):"
	listed := paths
	if !unlimited {
		listed = paths[:min(len(paths), maxPrinted)]
	}
	for _, p := range listed {
		text += "\n\t" + gitquote.ReadableName(p)
	}
	if n := len(paths) - len(listed); n > 0 {
		text += fmt.Sprintf("\n\tand %d more", n)
	}

	return text
}
