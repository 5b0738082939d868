package diff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/amberfs/amberfs/internal/budget"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Part is a run of lines in the merge of a text that two sides changed. Each line ends with its
// newline.
type Part struct {
	Kind   string   `json:"kind" jsonschema:"the sides that changed it: same, ours, theirs, both (to the same) or conflict"`
	Base   []string `json:"base"`
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
}

// mergeLines merges the changes of two sides to a text. It calls fn for each part of the text, in order. Changes
// that touch each other are in one part.
func mergeLines(ctx context.Context, base, ours, theirs []byte, fn func(kind string, base, ours, theirs [][]byte)) error {
	e := &stepBudget{ctx, maxDiffSteps}
	lb, lo, eo, err := e.compareText(base, ours)
	if err != nil {
		return err
	}

	_, lt, et, err := e.compareText(base, theirs)
	if err != nil {
		return err
	}

	b, o, t := 0, 0, 0 // the line at which the next part begins in base, ours and theirs
	add := func(kind string, baseEnd, oursEnd, theirsEnd int) {
		fn(kind, lb[b:baseEnd], lo[o:oursEnd], lt[t:theirsEnd])
		b, o, t = baseEnd, oursEnd, theirsEnd
	}

	for b < len(lb) || len(eo)+len(et) > 0 {
		// Lines up to the next edit of a side are the same in all texts.
		from := len(lb)
		for _, edits := range [][]edit{eo, et} {
			if len(edits) > 0 {
				from = min(from, edits[0].a0)
			}
		}

		if n := from - b; n > 0 {
			add("same", from, o+n, t+n)
			continue
		}

		// The next part has all edits of both sides that touch each other: nOurs edits of ours and nTheirs edits
		// of theirs. The part of base ends before the line baseEnd.
		baseEnd, nOurs, nTheirs := from, 0, 0

		for more := true; more; {
			switch {
			case nOurs < len(eo) && eo[nOurs].a0 <= baseEnd:
				baseEnd = max(baseEnd, eo[nOurs].a1)
				nOurs++
			case nTheirs < len(et) && et[nTheirs].a0 <= baseEnd:
				baseEnd = max(baseEnd, et[nTheirs].a1)
				nTheirs++
			default:
				more = false
			}
		}

		oursEnd, theirsEnd := o+baseEnd-from+addedLines(eo[:nOurs]), t+baseEnd-from+addedLines(et[:nTheirs])
		kind := "conflict"
		switch {
		case nTheirs == 0:
			kind = "ours"
		case nOurs == 0:
			kind = "theirs"
		case slices.EqualFunc(lo[o:oursEnd], lt[t:theirsEnd], bytes.Equal):
			kind = "both"
		}

		add(kind, baseEnd, oursEnd, theirsEnd)
		eo, et = eo[nOurs:], et[nTheirs:]
	}

	return nil
}

// mergeText returns a text with the changes of both sides. Lines that the sides changed differently are
// in conflict markers. clean reports whether there are no such lines. If show is set, it is called with the parts.
func mergeText(ctx context.Context, base, ours, theirs []byte, show func([]Part)) (text []byte, clean bool, err error) {
	var parts []Part
	clean = true
	err = mergeLines(ctx, base, ours, theirs, func(kind string, b, o, t [][]byte) {
		if show != nil {
			parts = append(parts, Part{kind, lineTexts(b), lineTexts(o), lineTexts(t)})
		}

		switch kind {
		case "theirs":
			text = append(text, bytes.Join(t, nil)...)
		case "conflict":
			clean = false
			text = append(text, "<<<<<<< ours\n"...)
			text = append(endLine(append(text, bytes.Join(o, nil)...)), "=======\n"...)
			text = append(endLine(append(text, bytes.Join(t, nil)...)), ">>>>>>> theirs\n"...)

		default:
			text = append(text, bytes.Join(o, nil)...)
		}
	})
	if show != nil && err == nil {
		show(parts)
	}

	return text, clean, err
}

// endLine adds a newline to a text whose last line has none.
func endLine(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	return text
}

// A Merger merges files by lines. Its method Merge is a threeway.Merger.
type Merger struct {
	// Memory is the pool for the memory of a merge; nil for no bounds. A file that needs more than all
	// of it is not merged.
	Memory *budget.Budget
	// Admit, if set, is called with the size of a merged file before it is stored. Its error ends the
	// merge.
	Admit func(bytes int64) error
	// Show, if set, is called with the parts of the file before Merge calls onMerged. It is not called if the parts
	// need more than all of Memory.
	Show func([]Part)
}

// Merge merges one file, and calls onMerged with the result. It returns nil without calling onMerged if
// the file is binary, or if its sides are too different or too large to be compared.
func (m Merger) Merge(ctx context.Context, in threeway.TextInput, onMerged func(threeway.MergedText) error) error {
	sides := [3]*io.SectionReader{in.Base, in.Ours, in.Theirs}
	var all survey
	for _, side := range sides {
		s, err := surveyBytes(ctx, io.NewSectionReader(side, 0, side.Size()), side.Size())
		if err != nil {
			return fmt.Errorf("merging files: %w", err)
		}
		all.size, all.lines, all.binary = all.size+s.size, all.lines+s.lines, all.binary || s.binary
	}
	if all.binary {
		return nil
	}

	need := 2 * comparisonMemory(all, survey{})
	if !m.Memory.Fits(need) {
		return nil
	}
	if !m.Memory.Fits(hunkMemoryFactor * need) {
		m.Show = nil
	}
	if m.Show != nil {
		need *= hunkMemoryFactor
	}

	release, err := m.Memory.Take(ctx, need)
	if err != nil {
		return err
	}
	defer release()

	var texts [3][]byte
	for i, side := range sides {
		texts[i] = make([]byte, side.Size())
		if _, err := io.ReadFull(side, texts[i]); err != nil {
			return fmt.Errorf("merging files: %w", err)
		}
	}

	text, clean, err := mergeText(ctx, texts[0], texts[1], texts[2], m.Show)
	if errors.Is(err, errTooDifferent) {
		return nil
	}
	if err != nil {
		return err
	}

	if clean && m.Admit != nil {
		if err := m.Admit(int64(len(text))); err != nil {
			return err
		}
	}

	return onMerged(threeway.MergedText{Text: text, Clean: clean})
}

// errTooLarge is the error for texts that need more than all memory for comparisons.
var errTooLarge = errs.New(errs.TooBig, "it has too many lines to be compared")

// addedLines returns the number of lines that edits add, negative if they remove more.
func addedLines(edits []edit) (n int) {
	for _, e := range edits {
		n += e.b1 - e.b0 - (e.a1 - e.a0)
	}
	return n
}

func lineTexts(lines [][]byte) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l)
	}
	return out
}

// The errors of UndoHunk.
var (
	// ErrNoHunk means that the comparison of a and b has no hunk with the id any more.
	ErrNoHunk = errors.New("the file changed meanwhile")
	// ErrLinesChanged means that the lines of the hunk differ between b and present.
	ErrLinesChanged = errors.New("the lines changed since")
)

// UndoHunk undoes one hunk: it returns the text that a file has in the state present, without the change of the
// hunk. The hunk, whose digest is id, is a difference between a and b. path and oldPath are as in TextOf. Errors:
// ErrNoHunk, ErrLinesChanged.
func UndoHunk(ctx context.Context, src *tree.Source, a, b, present *tree.State, path, oldPath, id string, o Options) ([]byte, error) {
	o = o.withStepBudget(ctx)
	f, err := fileAt(ctx, src, a, b, path, oldPath, o)
	if err != nil {
		return nil, err
	}
	if f == nil || max(Size(f.Before), Size(f.After)) > maxTextSize {
		return nil, ErrNoHunk
	}

	before, after, err := surveySides(ctx, src, *f, maxTextSize)
	if err != nil || before.binary || after.binary {
		return nil, errors.Join(err, ErrNoHunk)
	}
	if !o.Memory.Fits(hunkMemoryFactor * comparisonMemory(before, after)) {
		return nil, errTooLarge
	}

	text, found := []byte{}, false
	err = o.compare(ctx, src, *f, before, after, hunkMemoryFactor, func(la, lb [][]byte, edits []edit) {
		for h := range hunksOf(la, lb, edits) {
			if found = h.digest() == id; found {
				text = bytes.Join(slices.Concat(lb[:h.b0], la[h.a0:h.a1], lb[h.b1:]), nil)
				return
			}
		}
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, ErrNoHunk
	}
	if b == present {
		return text, nil
	}

	// The file has changed since b: merge the changes from b to present with the undone hunk.
	n, err := present.Resolve(src, path)
	if err != nil {
		return nil, err
	}
	if !n.IsRegular() || Size(n) > maxTextSize {
		return nil, ErrLinesChanged
	}

	presentSurvey, err := surveyOf(ctx, src, n, path, maxTextSize)
	if err != nil {
		return nil, err
	}

	// The merge compares after with two texts: with present, and with the text without the hunk, which is about as
	// long as after. So it needs the memory of two comparisons.
	need := 2 * hunkMemoryFactor * comparisonMemory(after, presentSurvey)
	if !o.Memory.Fits(need) {
		return nil, errTooLarge
	}

	release, err := o.Memory.Take(ctx, need)
	if err != nil {
		return nil, err
	}
	defer release()

	base, err := readBlob(src, f.After, path)
	if err != nil {
		return nil, err
	}

	ours, err := readBlob(src, n, path)
	if err != nil {
		return nil, err
	}

	text, clean, err := mergeText(ctx, base, ours, text, nil)
	if err != nil {
		return nil, err
	}
	if !clean {
		return nil, ErrLinesChanged
	}

	return text, nil
}
