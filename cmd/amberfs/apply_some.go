package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/gitbridge"
)

// askGroup asks for a group and records the choice, unless the group is to be split.
func (q *question) askGroup(ctx context.Context, g group) (split bool, err error) {
	c := g.changes[0]
	if c.Conflict {
		return false, q.settle(ctx, g)
	}
	answers := "ynq"
	if len(g.changes) > 1 && !g.whole {
		answers = "ynsq"
	} else if !g.whole {
		t, err := diff.TextOfChange(ctx, q.ch.Source, c.Change)
		if err != nil {
			return false, err
		}
		if c.A != nil && c.B != nil && c.A.IsRegular() && c.B.IsRegular() && len(t.Hunks) > 0 {
			return false, q.askHunks(ctx, g, t.Hunks)
		}
		q.printHunks(t.Hunks)
	}
	text, err := q.text(ctx, g, 0)
	if err != nil {
		return false, err
	}
	answer, err := q.oneOf(ctx, "apply "+text, answers)
	if err == nil && answer != "s" {
		q.set(g, gitbridge.Choice{Leave: answer == "n"})
	}
	return answer == "s", err
}

func (q *question) printHunks(hunks []diff.Hunk) {
	out := &diffWriter{a: q.a, w: q.a.stderr, person: true, color: q.a.color(), inPatch: true}
	for _, h := range hunks {
		fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@ %s\n", h.OldStart, h.OldLines, h.NewStart, h.NewLines, h.Section)
		for _, l := range h.Lines {
			fmt.Fprintf(out, "%s%s\n", l.Op, l.Text)
		}
	}
}

// askHunks asks for the hunks of a text file.
func (q *question) askHunks(ctx context.Context, g group, hunks []diff.Hunk) error {
	fmt.Fprintln(q.a.stderr, q.paint(g.name(), colorBold))
	var chosen []diff.Hunk
	answer := ""
	for i, h := range hunks {
		if answer != "a" && answer != "d" && !q.quit {
			q.printHunks(hunks[i : i+1])
			var err error
			if answer, err = q.oneOf(ctx, fmt.Sprintf("apply part %d of %d", i+1, len(hunks)), "ynadq"); err != nil {
				return err
			}
		}
		if answer == "y" || answer == "a" {
			chosen = append(chosen, h)
		}
	}
	if len(chosen) == 0 || len(chosen) == len(hunks) {
		q.set(g, gitbridge.Choice{Leave: len(chosen) == 0})
		return nil
	}
	c := g.changes[0]
	var sides [2]string
	for i, n := range []io.Reader{c.A.Content.Reader(q.ch.Source.Files), c.B.Content.Reader(q.ch.Source.Files)} {
		b, err := io.ReadAll(n)
		if err != nil {
			return err
		}
		sides[i] = string(b)
	}
	q.set(g, gitbridge.Choice{Text: withHunks(sides[0], sides[1], chosen)})
	q.left = true
	return nil
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
