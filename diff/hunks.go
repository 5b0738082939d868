package diff

import (
	"bytes"
	"context"
	"slices"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Hunk is a run of changed lines with the unchanged ones around it, as the
// unified format has it.
type Hunk struct {
	OldStart int    `json:"old_start"` // of the first line, from 1
	OldLines int    `json:"old_lines"`
	NewStart int    `json:"new_start"`
	NewLines int    `json:"new_lines"`
	Section  string `json:"section,omitempty"` // the declaration above
	Lines    []Line `json:"lines"`
}

// A Line is one line of a hunk, without its newline.
type Line struct {
	Op   string `json:"op" jsonschema:"- removed, + added, or a space"`
	Text string `json:"text"`
}

// Text is how the lines of one file differ. Binary files, and those over
// Options.MaxText, have no hunks.
type Text struct {
	Binary   bool
	TooLarge bool
	OldSize  int64 // bytes
	NewSize  int64
	Hunks    []Hunk
}

// TextOf compares the lines of the one file whose new path, or old path if it is
// gone, is path; from is its old path if it was renamed. A file that does not
// differ has no hunks.
func TextOf(ctx context.Context, src *tree.Source, a, b *tree.State, path, from string, o Options) (Text, error) {
	o.Paths, o.GitDirs = []string{path}, true
	if from != "" {
		o.Paths = append(o.Paths, from)
	}
	files, _, err := list(ctx, src, a, b, o)
	if err != nil {
		return Text{}, err
	}
	i := slices.IndexFunc(files, func(f File) bool { return f.Path == path })
	if i < 0 {
		return Text{}, nil
	}
	return textOf(ctx, src, files[i], o)
}

func textOf(ctx context.Context, src *tree.Source, f File, o Options) (Text, error) {
	t := Text{OldSize: size(f.Old), NewSize: size(f.New)}
	if t.TooLarge = max(t.OldSize, t.NewSize) > o.maxText(); t.TooLarge {
		return t, nil
	}
	a, err := surveyOf(ctx, src, f.Old, f.OldPath)
	if err != nil {
		return t, err
	}
	b, err := surveyOf(ctx, src, f.New, f.Path)
	if err != nil {
		return t, err
	}
	t.Binary = a.binary || b.binary
	t.TooLarge = !t.Binary && !o.Memory.Holds(hunkCost*cost(a, b))
	if t.Binary || t.TooLarge {
		return t, nil
	}
	release, err := o.Memory.Take(ctx, hunkCost*cost(a, b))
	if err != nil {
		return t, err
	}
	defer release()
	before, err := a.data(src, f.Old, f.OldPath)
	if err != nil {
		return t, err
	}
	after, err := b.data(src, f.New, f.Path)
	if err != nil {
		return t, err
	}
	t.Hunks = hunksOf(before, after, o.context())
	return t, nil
}

// hunkCost is how often the cost of a comparison is taken when its lines are
// kept, too.
const hunkCost = 2

func hunksOf(before, after []byte, context int) []Hunk {
	la, lb, edits := compareText(before, after)
	section := sections{lines: la, last: -1}
	var hunks []Hunk
	for near := range groups(edits, context) {
		hunks = append(hunks, hunkOf(near, la, lb, context, &section))
	}
	return hunks
}

func hunkOf(edits []edit, la, lb [][]byte, context int, section *sections) Hunk {
	first, last := edits[0], edits[len(edits)-1]
	lead, trail := min(context, first.a0), min(context, len(la)-last.a1)
	a0, b0 := first.a0-lead, first.b0-lead
	h := Hunk{
		OldStart: a0 + 1, OldLines: last.a1 + trail - a0, NewStart: b0 + 1, NewLines: last.b1 + trail - b0,
		Section: string(section.before(a0)),
	}
	add := func(op string, lines [][]byte) {
		for _, l := range lines {
			h.Lines = append(h.Lines, Line{op, string(bytes.TrimSuffix(l, []byte{'\n'}))})
		}
	}
	at := a0
	for _, e := range edits {
		add(" ", la[at:e.a0])
		add("-", la[e.a0:e.a1])
		add("+", lb[e.b0:e.b1])
		at = e.a1
	}
	add(" ", la[at:at+trail])
	return h
}
