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
	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Part is a run of lines of a text that two sides changed. Each line has its newline.
type Part struct {
	Kind   string   `json:"kind" jsonschema:"the sides that changed it: same, ours, theirs, both (to the same) or conflict"`
	Base   []string `json:"base"`
	Ours   []string `json:"ours"`
	Theirs []string `json:"theirs"`
}

// Merge finds what two sides changed in a text. Changes that touch are one part.
func Merge(ctx context.Context, base, ours, theirs []byte) (parts []Part, err error) {
	err = mergeLines(ctx, base, ours, theirs, func(kind string, b, o, t [][]byte) {
		parts = append(parts, Part{kind, lineTexts(b), lineTexts(o), lineTexts(t)})
	})
	return parts, err
}

// mergeLines calls part for each part of a merge, in order.
func mergeLines(ctx context.Context, base, ours, theirs []byte, part func(kind string, base, ours, theirs [][]byte)) error {
	e := &effort{ctx, diffCost}
	lb, lo, eo, err := e.compareText(base, ours)
	if err != nil {
		return err
	}
	_, lt, et, err := e.compareText(base, theirs)
	if err != nil {
		return err
	}

	at, o, t := 0, 0, 0 // how far the parts go in each text
	add := func(kind string, to, oursTo, theirsTo int) {
		part(kind, lb[at:to], lo[o:oursTo], lt[t:theirsTo])
		at, o, t = to, oursTo, theirsTo
	}
	for at < len(lb) || len(eo)+len(et) > 0 {
		from := len(lb)
		for _, edits := range [][]edit{eo, et} {
			if len(edits) > 0 {
				from = min(from, edits[0].a0)
			}
		}
		if n := from - at; n > 0 {
			add("same", from, o+n, t+n)
			continue
		}

		to, no, nt := from, 0, 0
		for more := true; more; {
			switch {
			case no < len(eo) && eo[no].a0 <= to:
				to = max(to, eo[no].a1)
				no++
			case nt < len(et) && et[nt].a0 <= to:
				to = max(to, et[nt].a1)
				nt++
			default:
				more = false
			}
		}

		oursTo, theirsTo := o+to-from+grown(eo[:no]), t+to-from+grown(et[:nt])
		kind := "conflict"
		switch {
		case nt == 0:
			kind = "ours"
		case no == 0:
			kind = "theirs"
		case slices.EqualFunc(lo[o:oursTo], lt[t:theirsTo], bytes.Equal):
			kind = "both"
		}
		add(kind, to, oursTo, theirsTo)
		eo, et = eo[no:], et[nt:]
	}
	return nil
}

// mergedText returns a text with the changes of both sides, with conflict markers around lines that
// the sides changed to different ones. clean reports whether there are no such lines.
func mergedText(ctx context.Context, base, ours, theirs []byte) (text []byte, clean bool, err error) {
	clean = true
	err = mergeLines(ctx, base, ours, theirs, func(kind string, _, o, t [][]byte) {
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
	return text, clean, err
}

// endLine ends the last line of a text.
func endLine(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] != '\n' {
		text = append(text, '\n')
	}
	return text
}

// A Merger merges files by lines. Its method Merge is a threeway.Merger.
type Merger struct {
	// Memory is charged with what a merge takes. A file that exceeds it does not merge. May be nil.
	Memory *budget.Budget
	// Admit, if set, is asked before a merged file is stored, and may refuse that.
	Admit func(bytes int64) error
}

// Merge merges one file. Binary files, and those that are too different to be compared, do not merge.
func (m Merger) Merge(ctx context.Context, in threeway.Input, merged func(threeway.Merged) error) error {
	sides := [3]*io.SectionReader{in.Base, in.Ours, in.Theirs}
	var all survey
	for _, side := range sides {
		s, err := surveySide(ctx, side)
		if err != nil {
			return fmt.Errorf("merging files: %w", err)
		}
		all.size, all.lines, all.binary = all.size+s.size, all.lines+s.lines, all.binary || s.binary
	}
	if all.binary {
		return nil
	}
	need := 2 * cost(all, survey{})
	if !m.Memory.Holds(need) {
		return nil
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
	text, clean, err := mergedText(ctx, texts[0], texts[1], texts[2])
	if errors.Is(err, errTooDifferent) {
		return nil
	}
	if err == nil && clean && m.Admit != nil {
		err = m.Admit(int64(len(text)))
	}
	if err != nil {
		return err
	}
	return merged(threeway.Merged{Text: text, Clean: clean})
}

// surveySide counts the bytes and lines of a file.
func surveySide(ctx context.Context, r *io.SectionReader) (s survey, err error) {
	s.size = r.Size()
	buf := make([]byte, min(s.size, surveyPiece))
	for at := int64(0); at < s.size; {
		n, err := r.ReadAt(buf[:min(s.size-at, surveyPiece)], at)
		if n == 0 {
			return s, err
		}
		s.binary = s.binary || at == 0 && isBinary(buf[:n])
		s.lines += bytes.Count(buf[:n], []byte{'\n'})
		at += int64(n)
		if err := turns.Yield(ctx); err != nil {
			return s, err
		}
	}
	s.lines++
	return s, nil
}

// errTooLarge is for texts that the memory for comparisons does not hold.
var errTooLarge = errs.New(errs.TooBig, "it has too many lines to be compared")

// takeMerge takes the memory for merging two texts into a third that is like the first.
func (o Options) takeMerge(ctx context.Context, a, b survey) (release func(), err error) {
	need := 2 * hunkCost * cost(a, b)
	if !o.Memory.Holds(need) {
		return nil, errTooLarge
	}
	return o.Memory.Take(ctx, need)
}

// TakeMerge takes the memory for Merge. Errors: errs.TooBig if there is not so much.
func TakeMerge(ctx context.Context, memory *budget.Budget, texts ...[]byte) (release func(), err error) {
	var sides survey
	for _, text := range texts {
		sides.size += int64(len(text))
		sides.lines += bytes.Count(text, []byte{'\n'}) + 1
	}
	return Options{Memory: memory}.takeMerge(ctx, sides, survey{})
}

// grown is how many lines edits add.
func grown(edits []edit) (n int) {
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

// ErrNoHunk is for a hunk that is no difference of two files any more, ErrTouched for lines
// that changed in a third one.
var (
	ErrNoHunk  = errors.New("the file changed meanwhile")
	ErrTouched = errors.New("the lines changed since")
)

// WithoutHunk returns the text of a file in now, without the change from a to b in the hunk
// with an id. path and from are those of TextOf.
func WithoutHunk(ctx context.Context, src *tree.Source, a, b, now *tree.State, path, from, id string, o Options) ([]byte, error) {
	o = o.withEffort(ctx)
	f, err := fileAt(ctx, src, a, b, path, from, o)
	if err != nil {
		return nil, err
	}
	if f == nil || max(Size(f.Before), Size(f.After)) > maxText {
		return nil, ErrNoHunk
	}
	before, after, err := surveys(ctx, src, *f, maxText)
	if err != nil || before.binary || after.binary {
		return nil, errors.Join(err, ErrNoHunk)
	}
	if !o.Memory.Holds(hunkCost * cost(before, after)) {
		return nil, errTooLarge
	}
	text, found := []byte{}, false
	err = o.compare(ctx, src, *f, before, after, hunkCost, func(la, lb [][]byte, edits []edit) {
		for h := range hunksOf(la, lb, edits) {
			if found = h.digest() == id; found {
				text = bytes.Join(slices.Concat(lb[:h.b0], la[h.a0:h.a1], lb[h.b1:]), nil)
				return
			}
		}
	})
	if err == nil && !found {
		err = ErrNoHunk
	}
	if err != nil || b == now {
		return text, err
	}
	n, err := now.Resolve(src, path)
	if err != nil {
		return nil, err
	}
	if !n.IsRegular() || Size(n) > maxText {
		return nil, ErrTouched
	}
	present, err := surveyOf(ctx, src, n, path, maxText)
	if err != nil {
		return nil, err
	}
	release, err := o.takeMerge(ctx, after, present)
	if err != nil {
		return nil, err
	}
	defer release()
	base, err := read(src, f.After, path)
	if err != nil {
		return nil, err
	}
	ours, err := read(src, n, path)
	if err != nil {
		return nil, err
	}
	text, clean, err := mergedText(ctx, base, ours, text)
	if err == nil && !clean {
		return nil, ErrTouched
	}
	return text, err
}
