package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A question shows what an apply changes, and asks what of it is wanted.
type question struct {
	a         *app // whose output is the terminal
	ch        *client.Changes
	dir       string
	removable bool // it is about a run that can be removed
	groups    []group
	dirs      []gitbridge.Planned // see grouped
	leftOut   int
	in        *bufio.Reader

	choices map[string]gitbridge.Choice // by path, for all below it too
	some    bool                        // what has no choice is left
	left    bool                        // something is left
	quit    bool
	discard bool   // the run is to be removed
	search  string // what is asked for next has this in its name or its lines
}

// errNotApplied ends a question without an answer.
var errNotApplied = fail.New(fail.Failed, "nothing was applied")

// newQuestion is about the plan of a dry run.
func newQuestion(a *app, ch *client.Changes, dir string, rule threeway.Rule, plan *gitbridge.Applied) *question {
	to := *a
	to.stdout, to.json = a.stderr, false
	q := &question{a: &to, ch: ch, dir: dir, in: bufio.NewReader(a.stdin), choices: make(map[string]gitbridge.Choice)}
	plan.Plan = slices.DeleteFunc(plan.Plan, func(c gitbridge.Planned) bool { return c.Conflict && rule == threeway.KeepOurs })
	for i := range plan.Plan {
		plan.Plan[i].Conflict = plan.Plan[i].Conflict && rule == threeway.RefuseConflicts
	}
	q.groups, q.dirs = grouped(plan.Plan)
	q.leftOut = plan.LeftOut
	return q
}

// asks reports whether a user can be asked.
func (a *app) asks() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// print lists what would change: the work, the repositories, and what other programs
// execute.
func (q *question) print(ctx context.Context) error {
	groups := q.groups
	if !q.a.verbose {
		groups = folded(groups, maxPrinted, ".")
	}
	width, more := 0, 0
	for _, g := range groups {
		width = min(60, max(width, utf8.RuneCountInString(g.name())))
	}
	for i, g := range groups {
		if i >= maxPrinted && !q.a.verbose && !g.git {
			more++
			continue
		}
		text, err := q.text(ctx, g, width)
		if err != nil {
			return err
		}
		fmt.Fprintln(q.a.stderr, text)
		if g.git {
			for _, s := range subjects(q.ch.Source, g) {
				fmt.Fprintln(q.a.stderr, s)
			}
		}
	}
	if more > 0 {
		fmt.Fprintf(q.a.stderr, "and %d more\n", more)
	}
	if q.leftOut > 0 {
		fmt.Fprintln(q.a.stderr, leftOutText(q.leftOut))
	}
	for _, g := range q.groups {
		for _, c := range g.changes {
			if c.B != nil && runsByItself(c.Path.String()) {
				fmt.Fprintln(q.a.stderr, q.paint("careful, other programs execute this: "+quote(c.Path.Short()), colorBold+colorRed))
			}
		}
	}
	return nil
}

func (q *question) paint(text, color string) string {
	if !q.a.color() {
		return text
	}
	return color + text + colorReset
}

var letterColors = map[string]string{"A": colorGreen, "D": colorRed, "M": colorCyan, "C": colorBold + colorRed, "+": colorGreen, "-": colorRed}

// text is the line of a group, with its name in a column of some width.
func (q *question) text(ctx context.Context, g group, width int) (string, error) {
	c, letter := g.changes[0], g.letter()
	var parts []string
	switch {
	case g.git:
		return gitText(q.ch.Source, g), nil
	case len(g.changes) > 1:
		parts = append(parts, g.counts())
	case c.Conflict:
		parts = append(parts, "changed on both sides")
	default:
		t, err := diff.TextOfChange(ctx, q.ch.Source, c.Change)
		if err != nil {
			return "", err
		}
		if t.Binary || t.TooLarge {
			parts = append(parts, "binary, "+bytesText(t.OldSize)+" to "+bytesText(t.NewSize))
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
		if c.A != nil && c.B != nil && c.A.Type() == c.B.Type() && c.A.Mode != c.B.Mode {
			parts = append(parts, fmt.Sprintf("mode %o to %o", c.A.Mode&0o7777, c.B.Mode&0o7777))
		}
	}
	line := fmt.Sprintf("%s  %-*s  %s", q.paint(letter, letterColors[letter]), width, g.name(), strings.Join(parts, " "))
	return strings.TrimRight(line, " "), nil
}

// ask asks until the answer is yes or no.
func (q *question) ask(ctx context.Context) (yes bool, err error) {
	words, help, discard := []string{"yes", "no", "some", "diff"}, "", ""
	if q.removable {
		words, discard = append(words, "discard"), "  discard"
		help = "discard - apply nothing, and remove the run. It can be had back for a day\n"
	}
	prompt := fmt.Sprintf("apply %s to %s? [y]es  [n]ot now  [s]ome  [d]iff%s  [?]: ", plural(len(q.groups), "change", "changes"), quote(q.dir), discard)
	answer, err := q.pick(ctx, prompt, words, "y - apply all\nn - apply nothing now; the changes are kept"+
		"\ns - choose files, and parts of files\nd - show the changes outside of .git\n"+help, q.groups...)
	switch {
	case err != nil || answer == "no":
		return false, err
	case answer == "discard":
		q.discard, err = q.confirm(ctx)
		return false, err
	case answer == "some":
		return true, q.chooseSome(ctx)
	}
	for _, g := range q.groups {
		if g.changes[0].Conflict {
			if err := q.settle(ctx, g); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// manyFiles is how many changed files are not removed without a second question.
const manyFiles = 20

// confirm asks again before a run with commits or many files is removed.
func (q *question) confirm(ctx context.Context) (bool, error) {
	if len(q.commits()) == 0 && q.files() <= manyFiles {
		return true, nil
	}
	answer, err := q.read(ctx, "remove "+q.summary()+"? Type discard again: ")
	return answer == "discard", err
}

// work is all that changed outside of repositories, without directories.
func (q *question) work() (g group) {
	for _, one := range q.groups {
		for _, c := range one.changes {
			if !one.git && !isDir(c) {
				g.changes = append(g.changes, c)
			}
		}
	}
	return g
}

func (q *question) files() int { return len(q.work().changes) }

// summary counts what changed.
func (q *question) summary() string {
	var parts []string
	if g := q.work(); len(g.changes) > 0 {
		parts = append(parts, plural(len(g.changes), "file", "files")+" ("+g.counts()+")")
	}
	for _, g := range q.groups {
		if g.git {
			parts = append(parts, gitText(q.ch.Source, g))
		}
	}
	if len(parts) == 0 {
		return plural(len(q.groups)+len(q.dirs), "path", "paths")
	}
	return strings.Join(parts, "; ")
}

// commits are the subjects of the commits that were made, the newest last, at most a few of
// each repository.
func (q *question) commits() (out []string) {
	for _, g := range q.groups {
		if g.git {
			out = append(out, subjects(q.ch.Source, g)...)
		}
	}
	return out
}

// pick asks until the answer is one of some words, or their beginning. It prints the help
// for others, and shows what changed in groups for "diff".
func (q *question) pick(ctx context.Context, prompt string, words []string, help string, groups ...group) (string, error) {
	for {
		answer, err := q.read(ctx, prompt)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(words, func(w string) bool {
			return answer == w || answer != "" && w != "discard" && strings.HasPrefix(w, answer)
		})
		switch {
		case i < 0 && len(answer) > 1 && answer[0] == '/' && slices.Contains(words, "q"):
			return answer, nil
		case i < 0:
			fmt.Fprint(q.a.stderr, help)
		case words[i] != "diff":
			return words[i], nil
		default:
			if err := q.showDiff(ctx, groups...); err != nil {
				return "", err
			}
		}
	}
}

// read asks for a line.
func (q *question) read(ctx context.Context, prompt string) (line string, err error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT)
	defer stop()
	fmt.Fprint(q.a.stderr, q.paint(prompt, colorBold))
	got := make(chan string)
	go func() {
		defer close(got)
		if line, err := q.in.ReadString('\n'); line != "" || err == nil {
			got <- line
		}
	}()
	select {
	case line, ok := <-got:
		if ok {
			return strings.ToLower(strings.TrimSpace(line)), nil
		}
		err = errNotApplied
	case <-ctx.Done():
		err = fail.New(fail.Failed, "interrupted")
	}
	fmt.Fprintln(q.a.stderr)
	return "", err
}

// showDiff shows the changes of groups in a pager.
func (q *question) showDiff(ctx context.Context, groups ...group) error {
	var o diff.Options
	for _, g := range groups {
		for _, c := range g.changes {
			o.Paths = append(o.Paths, c.Path.String())
		}
	}
	out := &diffWriter{a: q.a}
	err := errors.Join(diff.Write(ctx, out, q.ch.Source, q.ch.Base, q.ch.Now, o), out.flush())
	q.a.closeOutput()
	switch {
	case out.refused: // the pager has ended
		return nil
	case out.n == 0:
		fmt.Fprintln(q.a.stderr, "no differences outside of .git")
	}
	return err
}

// settle asks which version of a path that both sides changed is wanted.
func (q *question) settle(ctx context.Context, g group) error {
	words, choices := []string{"ours", "diff", "stop"}, map[string]gitbridge.Choice{"ours": {Leave: true}, "theirs": {Conflicts: threeway.TakeTheirs}, "merged": {Markers: true}}
	prompt := fmt.Sprintf("%s changed on both sides: [o]urs, of %s", g.name(), quote(q.dir))
	if !g.changes[0].Blocked {
		words, prompt = append(words, "theirs"), prompt+"  [t]heirs, of the workspace"
	}
	if g.changes[0].Lines {
		words, prompt = append(words, "merged"), prompt+"  [m]erged with markers"
	}
	answer, err := q.pick(ctx, prompt+"  [d]iff  [s]top: ", words, "", g)
	if answer == "stop" {
		return errNotApplied
	}
	q.set(g, choices[answer])
	return err
}

// set records what becomes of a group.
func (q *question) set(g group, c gitbridge.Choice) {
	q.left = q.left || c.Leave
	if g.whole {
		q.choices[g.dir] = c
	}
	for _, p := range g.changes {
		q.choices[p.Path.String()] = c
	}
}

// choose is for gitbridge.ApplyOptions.
func (q *question) choose(p string) gitbridge.Choice {
	for ; p != "."; p = path.Dir(p) {
		if c, ok := q.choices[p]; ok {
			return c
		}
	}
	return gitbridge.Choice{Leave: q.some}
}

// oneOf asks for one of some answers, each a letter. After "q" nothing more is asked.
func (q *question) oneOf(ctx context.Context, what, answers string) (string, error) {
	letters, help := strings.Split(answers, ""), ""
	for _, l := range letters {
		help += l + " - " + answerHelp[l] + "\n"
	}
	help += "/TEXT - leave this, and go to what has TEXT in its name or its lines\n"
	answer, err := q.pick(ctx, what+" ["+strings.Join(letters, ",")+",/,?]? ", letters, help)
	if text, ok := strings.CutPrefix(answer, "/"); ok {
		q.search, answer = text, "n"
	}
	if q.quit = answer == "q"; q.quit {
		answer = "n"
	}
	return answer, err
}

var answerHelp = map[string]string{
	"y": "apply this", "n": "leave this", "a": "apply this and the rest of the file", "d": "leave this and the rest of the file",
	"s": "go through what is in it", "q": "leave this and all that follows", "b": "go back to the question before",
	"e": "edit the text that is applied, in $EDITOR",
}

// matches reports whether a group has the text that is looked for.
func (q *question) matches(ctx context.Context, g group) bool {
	for _, c := range g.changes {
		if strings.Contains(strings.ToLower(c.Path.String()), q.search) {
			return true
		}
		t, err := diff.TextOfChange(ctx, q.ch.Source, c.Change)
		if err != nil {
			continue
		}
		for _, h := range t.Hunks {
			if slices.ContainsFunc(h.Lines, func(l diff.Line) bool {
				return l.Op != " " && strings.Contains(strings.ToLower(l.Text), q.search)
			}) {
				return true
			}
		}
	}
	return false
}

// edit lets the user change the text that a file gets.
func (q *question) edit(g group) error {
	c := g.changes[0]
	text, err := io.ReadAll(c.B.Content.Reader(q.ch.Source.Files))
	if err != nil {
		return err
	}
	f, err := os.CreateTemp("", "amberfs-*-"+path.Base(c.Path.String()))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(text); err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	editor := cmp.Or(env.Get("VISUAL"), env.Get("EDITOR"), "vi")
	cmd := exec.Command("sh", "-c", editor+` "$1"`, "sh", f.Name())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal(q.a.stdin), terminal(q.a.stderr), terminal(q.a.stderr)
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(q.a.stderr, "the editor failed: %v\n", err)
		return nil
	}
	edited, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}
	if !bytes.Equal(edited, text) {
		q.set(g, gitbridge.Choice{Text: edited})
		q.left = true
	} else {
		q.set(g, gitbridge.Choice{})
	}
	return nil
}

// chooseSome asks for each change. It is errNotApplied if none was chosen.
func (q *question) chooseSome(ctx context.Context) error {
	q.some = true
	var past [][]group
	for todo := folded(q.groups, maxPrinted, "."); len(todo) > 0; {
		g, now := todo[0], todo
		todo = todo[1:]
		if q.quit || q.search != "" && !q.matches(ctx, g) {
			q.set(g, gitbridge.Choice{Leave: true})
			continue
		}
		q.search = ""
		answer, err := q.askGroup(ctx, g)
		switch {
		case err != nil:
			return err
		case answer == "b" && len(past) > 0:
			todo, past = past[len(past)-1], past[:len(past)-1]
			continue
		case answer == "b":
			todo = now
			continue
		case answer == "s":
			parts, _ := grouped(g.changes)
			todo = append(folded(parts, maxPrinted, g.dir), todo...)
		}
		past = append(past, now)
	}
	// New directories come with what is chosen in them, and those that are gone go if
	// nothing in them is left.
	taken, left := map[string]bool{}, map[string]bool{}
	for p, c := range q.choices {
		for ; p != "."; p = path.Dir(p) {
			map[bool]map[string]bool{false: taken, true: left}[c.Leave][p] = true
		}
	}
	if len(taken) == 0 {
		return errNotApplied
	}
	for _, d := range q.dirs {
		p := d.Path.String()
		q.choices[p] = gitbridge.Choice{Leave: d.A == nil && !taken[p] || d.B == nil && left[p]}
	}
	return nil
}
