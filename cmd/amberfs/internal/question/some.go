package question

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// chooseSome asks about each group, and records the choices. If no change was chosen it returns
// errNothingApplied.
func (q *Question) chooseSome(ctx context.Context) error {
	q.leaveUnchosen = true
	var earlier [][]group // the groups that were left before each earlier question, to which the answer "b" goes back

	for todo := foldGroups(q.groups, maxPrinted, "."); len(todo) > 0; {
		g, current := todo[0], todo
		todo = todo[1:]

		if q.isEnded || q.searchText != "" && !g.containsText(ctx, q.changes.Source, q.searchText) {
			q.setChoice(g, hostdir.Choice{Leave: true})
			continue
		}

		q.searchText = ""
		answer, err := q.askGroup(ctx, g)
		switch {
		case err != nil:
			return err
		case answer == "b" && len(earlier) > 0:
			todo, earlier = earlier[len(earlier)-1], earlier[:len(earlier)-1]
			continue
		case answer == "b":
			todo = current
			continue
		case answer == "s":
			parts, _ := groupChanges(g.changes)
			todo = append(foldGroups(parts, maxPrinted, g.dir), todo...)
		}

		earlier = append(earlier, current)
	}

	for _, c := range q.choices {
		if !c.Leave {
			hostdir.ChooseDirs(q.choices, q.dirs)
			return nil
		}
	}

	return errNothingApplied
}

// askGroup asks about a group and records the choice. It records no choice for the answers "s" (split the
// group) and "b" (go back), which it returns.
func (q *Question) askGroup(ctx context.Context, g group) (answer string, err error) {
	if g.isConflict() || len(g.repo.Diverged) > 0 {
		return "", q.resolve(ctx, g)
	}
	answers := "ynbq"

	if len(g.changes) > 1 && !g.indivisible {
		answers = "ynsbq"
	} else if !g.indivisible {
		c := g.changes[0]
		t, err := diff.TextOfChange(ctx, q.changes.Source, c.Change)
		if err != nil {
			return "", err
		}
		if c.Before != nil && c.After != nil && c.Before.IsRegular() && c.After.IsRegular() && len(t.Hunks) > 0 {
			return q.askHunks(ctx, g, t.Hunks)
		}

		q.printHunks(t.Hunks)
		if len(t.Hunks) > 0 && c.After != nil && c.After.IsRegular() {
			answers = "ynebq"
		}
	}

	text, err := q.groupText(ctx, g, 0)
	if err != nil {
		return "", err
	}

	answer, err = q.askLetter(ctx, "apply "+text, answers)
	switch {
	case err != nil || answer == "s" || answer == "b":
	case answer == "e":
		err = q.editFile(g)
	default:
		q.setChoice(g, hostdir.Choice{Leave: answer == "n"})
	}

	return answer, err
}

func (q *Question) printHunks(hunks []diff.Hunk) {
	out := q.terminal.Out
	if q.terminal.Color {
		out = &styles.PatchWriter{W: out, InFile: true}
	}

	for _, h := range hunks {
		fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@ %s\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section)
		for _, l := range h.Lines {
			fmt.Fprintf(out, "%s%s\n", l.Op, l.Text)
		}
	}
}

// askHunks asks about each hunk of a text file, and records the choice for the file. For the answer "b" at
// the first hunk it returns "b".
func (q *Question) askHunks(ctx context.Context, g group, hunks []diff.Hunk) (string, error) {
	fmt.Fprintln(q.terminal.Out, q.paint(g.printedName(), styles.Bold))
	isTaken, answer := make([]bool, len(hunks)), ""

	for i := 0; i < len(hunks); i++ {
		if answer != "a" && answer != "d" && !q.isEnded && q.searchText == "" {
			q.printHunks(hunks[i : i+1])
			var err error
			answer, err = q.askLetter(ctx, fmt.Sprintf("apply part %d of %d", i+1, len(hunks)), "ynadebq")
			switch {
			case err != nil:
				return "", err
			case answer == "e":
				return "", q.editFile(g)
			case answer == "b" && i == 0:
				return "b", nil
			case answer == "b":
				i -= 2
				continue
			}
		}

		isTaken[i] = (answer == "y" || answer == "a") && q.searchText == ""
	}

	var chosen []diff.Hunk
	for i, h := range hunks {
		if isTaken[i] {
			chosen = append(chosen, h)
		}
	}

	if len(chosen) == 0 || len(chosen) == len(hunks) {
		q.setChoice(g, hostdir.Choice{Leave: len(chosen) == 0})
		return "", nil
	}

	text, err := diff.ApplyHunks(q.changes.Source, g.changes[0].Change, chosen)
	if err != nil {
		return "", err
	}

	q.setChoice(g, hostdir.Choice{Text: text})
	q.HasUnapplied = true

	return "", nil
}

// containsText reports whether a path or changed line of a group contains a text, which is in lower case.
func (g group) containsText(ctx context.Context, src *tree.Source, text string) bool {
	for _, c := range g.changes {
		if strings.Contains(strings.ToLower(c.Path.String()), text) {
			return true
		}
		t, err := diff.TextOfChange(ctx, src, c.Change)
		if err != nil {
			continue
		}

		for _, h := range t.Hunks {
			if slices.ContainsFunc(h.Lines, func(l diff.Line) bool {
				return l.Op != " " && strings.Contains(strings.ToLower(l.Text), text)
			}) {
				return true
			}
		}
	}
	return false
}

// editFile opens the new text of a file in the user's editor, and records the edited text as the choice.
func (q *Question) editFile(g group) error {
	c := g.changes[0]
	text, err := io.ReadAll(c.After.Content.Reader(q.changes.Source.Files))
	if err != nil {
		return err
	}

	f, err := os.CreateTemp("", "amberfs-*-"+path.Base(c.Path.String()))
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())

	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}

	editor := cmp.Or(env.Get("VISUAL"), env.Get("EDITOR"), "vi")
	cmd := exec.Command("sh", "-c", editor+` "$1"`, "sh", f.Name())
	if err := q.terminal.Run(cmd); err != nil {
		fmt.Fprintf(q.terminal.Out, "the editor failed: %v\n", err)
		return nil
	}

	edited, err := os.ReadFile(f.Name())
	if err != nil {
		return err
	}

	if !bytes.Equal(edited, text) {
		q.setChoice(g, hostdir.Choice{Text: edited})
		q.HasUnapplied = true
	} else {
		q.setChoice(g, hostdir.Choice{})
	}

	return nil
}
