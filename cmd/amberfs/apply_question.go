package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// A question shows what an apply changes, and asks what of it is wanted.
type question struct {
	a      *app // whose output is the terminal
	ch     *client.Changes
	dir    string
	no     string // what no does
	groups []group
	dirs   []gitbridge.Planned // see grouped
	want   chan bool           // asks for a line
	lines  chan string

	choices map[string]gitbridge.Choice // by path, for all below it too
	some    bool                        // what has no choice is left
	left    bool                        // something is left
	quit    bool
}

// errNotApplied ends a question without an answer.
var errNotApplied = fail.New(fail.Failed, "nothing was applied")

// newQuestion is about the plan of a dry run. If no is set, it is what no does.
func newQuestion(a *app, ch *client.Changes, dir, no string, rule threeway.Rule, plan *gitbridge.Applied) *question {
	to := *a
	to.stdout, to.json = a.stderr, false
	q := &question{a: &to, ch: ch, dir: dir, no: no, want: make(chan bool), lines: make(chan string), choices: make(map[string]gitbridge.Choice)}
	if rule == threeway.KeepOurs {
		plan.Plan = slices.DeleteFunc(plan.Plan, func(c gitbridge.Planned) bool { return c.Conflict })
	}
	for i := range plan.Plan {
		plan.Plan[i].Conflict = plan.Plan[i].Conflict && rule == threeway.RefuseConflicts
	}
	q.groups, q.dirs = grouped(plan.Plan)
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
	}
	if more > 0 {
		fmt.Fprintf(q.a.stderr, "and %d more\n", more)
	}
	for _, g := range q.groups {
		for _, c := range g.changes {
			if c.B != nil && executes(c.Path.String()) {
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

var letterColors = map[string]string{"A": colorGreen, "D": colorRed, "M": colorCyan, "C": colorBold + colorRed}

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
		if n := lines["+"]; n > 0 {
			parts = append(parts, q.paint(fmt.Sprintf("+%d", n), colorGreen))
		}
		if n := lines["-"]; n > 0 {
			parts = append(parts, q.paint(fmt.Sprintf("-%d", n), colorRed))
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
	go func() {
		defer close(q.lines)
		// A line is read when it is wanted: until then a pager reads from the terminal.
		for s := bufio.NewScanner(q.a.stdin); <-q.want && s.Scan(); {
			q.lines <- s.Text()
		}
	}()
	defer close(q.want)
	no, help := "", "apply nothing; the changes stay where they are"
	if q.no != "" {
		no, help = ", "+q.no, "apply nothing, and "+q.no+" the changes"
	}
	prompt := fmt.Sprintf("apply %s to %s? [y]es  [n]o%s  [s]ome  [d]iff  [?]: ", plural(len(q.groups), "change", "changes"), quote(q.dir), no)
	for {
		answer, err := q.read(ctx, prompt)
		if err != nil {
			return false, err
		}
		switch answer {
		case "y", "yes":
			for _, g := range q.groups {
				if g.changes[0].Conflict {
					if err := q.settle(ctx, g); err != nil {
						return false, err
					}
				}
			}
			return true, nil
		case "n", "no":
			return false, nil
		case "s", "some":
			return true, q.chooseSome(ctx)
		case "d", "diff":
			if err := q.showDiff(ctx, q.groups...); err != nil {
				return false, err
			}
		default:
			fmt.Fprintf(q.a.stderr, "y - apply all\nn - %s\ns - choose files, and parts of files\nd - show the changes outside of .git\nCtrl-D - apply nothing, and keep the changes\n", help)
		}
	}
}

// read asks for a line.
func (q *question) read(ctx context.Context, prompt string) (string, error) {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGINT)
	defer stop()
	fmt.Fprint(q.a.stderr, q.paint(prompt, colorBold))
	q.want <- true
	select {
	case line, ok := <-q.lines:
		if !ok {
			fmt.Fprintln(q.a.stderr)
			return "", errNotApplied
		}
		return strings.ToLower(strings.TrimSpace(line)), nil
	case <-ctx.Done():
		fmt.Fprintln(q.a.stderr)
		return "", fail.New(fail.Failed, "interrupted")
	}
}

// showDiff shows the changes of groups in a pager.
func (q *question) showDiff(ctx context.Context, groups ...group) error {
	var o diff.Options
	for _, g := range groups {
		for _, c := range g.changes {
			o.Paths = append(o.Paths, c.Path.String())
		}
	}
	out := newDiffWriter(q.a)
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
	c := g.changes[0]
	choices := map[string]gitbridge.Choice{"o": {Leave: true}}
	prompt := fmt.Sprintf("%s changed on both sides: [o]urs, of %s", g.name(), quote(q.dir))
	if !c.Blocked {
		choices["t"] = gitbridge.Choice{Conflicts: threeway.TakeTheirs}
		prompt += "  [t]heirs, of the workspace"
	}
	if c.Lines {
		choices["m"] = gitbridge.Choice{Markers: true}
		prompt += "  [m]erged with markers"
	}
	for {
		answer, err := q.read(ctx, prompt+"  [d]iff  [s]top: ")
		if err != nil {
			return err
		}
		choice, known := choices[answer[:min(1, len(answer))]]
		switch {
		case known:
			q.set(g, choice)
			return nil
		case strings.HasPrefix(answer, "d"):
			if err := q.showDiff(ctx, g); err != nil {
				return err
			}
		case strings.HasPrefix(answer, "s"):
			return errNotApplied
		}
	}
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

// oneOf asks for one of some answers, each a letter.
func (q *question) oneOf(ctx context.Context, what, answers string) (string, error) {
	for {
		answer, err := q.read(ctx, what+" ["+strings.Join(strings.Split(answers+"?", ""), ",")+"]? ")
		if err != nil {
			return "", err
		}
		if q.quit = answer == "q"; q.quit {
			return "n", nil
		}
		if len(answer) == 1 && strings.Contains(answers, answer) {
			return answer, nil
		}
		for _, h := range answerHelp {
			if strings.Contains(answers, h[:1]) {
				fmt.Fprintln(q.a.stderr, h)
			}
		}
	}
}

var answerHelp = []string{
	"y - apply this", "n - leave this", "a - apply this and the rest of the file", "d - leave this and the rest of the file",
	"s - go through what is in it", "q - leave this and all that follows",
}

// chooseSome asks for each change. It is errNotApplied if none was chosen.
func (q *question) chooseSome(ctx context.Context) error {
	q.some = true
	todo := folded(q.groups, maxPrinted, ".")
	for len(todo) > 0 {
		g := todo[0]
		todo = todo[1:]
		if q.quit {
			q.set(g, gitbridge.Choice{Leave: true})
			continue
		}
		split, err := q.askGroup(ctx, g)
		if err != nil {
			return err
		}
		if split {
			parts, _ := grouped(g.changes)
			todo = append(folded(parts, maxPrinted, g.dir), todo...)
		}
	}
	// New directories come with what is chosen in them, and those that are gone go if
	// nothing in them is left.
	taken, left := map[string]bool{}, map[string]bool{}
	for p, c := range q.choices {
		in := taken
		if c.Leave {
			in = left
		}
		for ; p != "."; p = path.Dir(p) {
			in[p] = true
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
