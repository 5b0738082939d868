package diff

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/amberfs/amberfs/snapshot/tree"
)

// A Hunk is a run of changed lines with the unchanged lines around it, as in the
// unified format.
type Hunk struct {
	OldStart int    `json:"old_start"` // number of the first line, from 1
	OldLines int    `json:"old_lines"`
	NewStart int    `json:"new_start"`
	NewLines int    `json:"new_lines"`
	Section  string `json:"section,omitempty"` // the last declaration above the hunk
	ID       string `json:"id,omitempty" jsonschema:"a digest of its place and its lines"`
	Lines    []Line `json:"lines"`
}

// A Line is one line of a hunk, without its newline.
type Line struct {
	Op   string `json:"op" jsonschema:"- removed, + added, space unchanged"`
	Text string `json:"text"`
}

// Text has the differences between the lines of two versions of a file. It has no hunks if a version is
// binary or over 64 MiB.
type Text struct {
	Binary   bool   `json:"binary,omitempty"`
	TooLarge bool   `json:"too_large,omitempty" jsonschema:"too large to be compared by lines"`
	OldSize  int64  `json:"old_size" jsonschema:"bytes"`
	NewSize  int64  `json:"new_size" jsonschema:"bytes"`
	Hunks    []Hunk `json:"hunks"`
	Skipped  int    `json:"-"` // the number of lines in the hunks that Options.SkipLines left out
}

// TextOf compares the lines of one file. path is its new path or, if it was deleted, its last one. oldPath
// is its old path if it was renamed, else "". The Text of a file that does not differ is empty.
func TextOf(ctx context.Context, src *tree.Source, a, b *tree.State, path, oldPath string, o Options) (Text, error) {
	o = o.withStepBudget(ctx)
	f, err := fileAt(ctx, src, a, b, path, oldPath, o)
	if err != nil || f == nil {
		return Text{}, err
	}
	return textOf(ctx, src, *f, o)
}

// fileAt returns the file that TextOf compares, nil if it does not differ.
func fileAt(ctx context.Context, src *tree.Source, a, b *tree.State, path, oldPath string, o Options) (*File, error) {
	o.Paths, o.gitDirs = []string{path}, true
	if oldPath != "" {
		o.Paths = append(o.Paths, oldPath)
	}

	files, err := listFiles(ctx, src, a, b, o)
	for i := range files {
		if files[i].Path == path {
			return &files[i], err
		}
	}

	return nil, err
}

// TextOfChange does what TextOf does, for a change that tree.Diff found.
func TextOfChange(ctx context.Context, src *tree.Source, c tree.Change) (Text, error) {
	f, ok := fileOf(c)
	if !ok {
		return Text{}, nil
	}
	return textOf(ctx, src, f, Options{}.withStepBudget(ctx))
}

func textOf(ctx context.Context, src *tree.Source, f File, o Options) (Text, error) {
	t := Text{OldSize: Size(f.Before), NewSize: Size(f.After)}
	if t.TooLarge = max(t.OldSize, t.NewSize) > maxTextSize; t.TooLarge {
		return t, nil
	}

	a, b, err := surveySides(ctx, src, f, maxTextSize)
	if err != nil {
		return t, err
	}

	t.Binary = a.binary || b.binary
	t.TooLarge = !t.Binary && !o.Memory.Fits(hunkMemoryFactor*comparisonMemory(a, b))
	if t.Binary || t.TooLarge {
		return t, nil
	}

	err = o.compare(ctx, src, f, a, b, hunkMemoryFactor, func(oldLines, newLines [][]byte, edits []edit) {
		seen := 0

		for h := range hunksOf(oldLines, newLines, edits) {
			if o.MaxLines > 0 && seen > o.SkipLines+o.MaxLines {
				break // t has one more hunk than requested, so that the caller notices that there are more
			}

			if seen += h.lineCount(); seen <= o.SkipLines {
				t.Skipped = seen
				continue
			}

			t.Hunks = append(t.Hunks, h.withLines())
		}
	})
	if errors.Is(err, errTooDifferent) {
		t.TooLarge, err = true, nil
	}

	return t, err
}

// digest returns the id of the hunk: a hash of its place and its lines.
func (h hunk) digest() string {
	sum := sha256.New()
	w := bufio.NewWriterSize(sum, 64<<10)
	fmt.Fprintln(w, h.a0, h.a1, h.b0, h.b1)
	h.eachRun(func(op byte, lines [][]byte) {
		for _, l := range lines {
			w.WriteByte(op)
			w.Write(bytes.TrimSuffix(l, []byte{'\n'}))
			w.WriteByte('\n')
		}
	})

	_ = w.Flush() // writing to a hash cannot fail

	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// hunkMemoryFactor is the factor by which a comparison takes more memory if its hunks are copied.
const hunkMemoryFactor = 2

// lineCount returns the number of lines in the hunk.
func (h hunk) lineCount() int {
	n := h.a1 - h.a0
	for _, e := range h.edits {
		n += e.b1 - e.b0
	}
	return n
}

// withLines returns the hunk with copies of its lines.
func (h hunk) withLines() Hunk {
	out := Hunk{
		OldStart: h.a0 + 1, OldLines: h.a1 - h.a0, NewStart: h.b0 + 1, NewLines: h.b1 - h.b0, Section: string(h.section),
		ID: h.digest(), Lines: make([]Line, 0, h.lineCount()),
	}
	h.eachRun(func(op byte, lines [][]byte) {
		for _, l := range lines {
			out.Lines = append(out.Lines, Line{string(op), string(bytes.TrimSuffix(l, []byte{'\n'}))})
		}
	})

	return out
}
