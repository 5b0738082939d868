package service

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// Diffs are returned in parts: a browser or a model cannot use a diff of a hundred megabytes.

const (
	// hunkLines is the number of lines in a part. Each is cut off after lineBytes.
	hunkLines = 500
	lineBytes = 4 << 10
	// maxRead is the most bytes that one File returns.
	maxRead = 64 << 20
)

type Hunks struct {
	A      string          `json:"a" jsonschema:"the snapshot to compare from"`
	B      string          `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Path   naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	From   naming.BytePath `json:"from,omitempty" jsonschema:"its old path, if it was renamed"`
	Cursor int             `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	Lines  int             `json:"lines,omitempty" jsonschema:"at most so many lines; 0: 500"`
}

type HunkList struct {
	diff.Text
	Next int `json:"next,omitempty" jsonschema:"the cursor of the next part, if any"`
}

func readHunks(ctx context.Context, r *Request, a Hunks) (HunkList, error) {
	var out HunkList
	if a.Lines <= 0 || a.Lines > hunkLines {
		a.Lines = hunkLines
	}

	o := diff.Options{Memory: r.budget(Texts), Skip: max(0, a.Cursor), Lines: a.Lines}
	err := compare(r, a.A, a.B, func(from, to *tree.State) (err error) {
		out.Text, err = diff.TextOf(ctx, r.source(), from, to, string(a.Path), string(a.From), o)
		return err
	})
	out.Hunks, out.Next = partOf(out.Hunks, out.Skipped, o.Skip, o.Lines)
	return out, err
}

// partOf returns at most lines lines of a diff, from line number cursor on, and the cursor of the next
// part, 0 at the end. hunks are the hunks of the diff after its first seen lines.
func partOf(hunks []diff.Hunk, seen, cursor, lines int) (part []diff.Hunk, next int) {
	part = []diff.Hunk{}
	room := lines

	for _, h := range hunks {
		skip := max(0, cursor-seen)
		seen += len(h.Lines)

		if skip < len(h.Lines) && room > 0 {
			h = sliceHunk(h, skip, min(len(h.Lines), skip+room))
			room -= len(h.Lines)
			part = append(part, h)
		}
	}

	if cursor+lines < seen {
		next = cursor + lines
	}

	return part, next
}

// sliceHunk returns the lines from up to to of a hunk as a hunk, with their line numbers.
func sliceHunk(h diff.Hunk, from, to int) diff.Hunk {
	part := diff.Hunk{OldStart: h.OldStart, NewStart: h.NewStart, Section: h.Section, ID: h.ID}

	for i, l := range h.Lines[:to] {
		before, after := 1, 1
		switch l.Op {
		case "+":
			before = 0
		case "-":
			after = 0
		}

		if i < from {
			part.OldStart += before
			part.NewStart += after
			continue
		}

		part.OldLines += before
		part.NewLines += after
		if len(l.Text) > lineBytes {
			l.Text = strings.ToValidUTF8(l.Text[:lineBytes], "") + " …"
		}

		part.Lines = append(part.Lines, l)
	}

	return part
}

type File struct {
	Path     naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	Snapshot string          `json:"snapshot,omitempty" jsonschema:"the snapshot; if empty, the present state"`
	Offset   int64           `json:"offset,omitempty" jsonschema:"bytes to skip"`
	Limit    int64           `json:"limit,omitempty" jsonschema:"at most this many bytes; 0: 64 MiB"`
}

func readFile(_ context.Context, r *Request, a File) (None, error) {
	st, release, err := holdState(r, a.Snapshot)
	if err != nil {
		return None{}, err
	}
	defer release()

	src := r.source()
	n, err := st.Resolve(src, string(a.Path))
	if err != nil {
		return None{}, err
	}

	if n.IsSymlink() {
		_, err = io.WriteString(r.Out, n.Target)
		return None{}, err
	}
	if n.Content == nil {
		return None{}, errs.Fail(errs.Invalid, "%s is not a file", a.Path)
	}
	if a.Offset < 0 || a.Limit < 0 {
		return None{}, errs.Fail(errs.Invalid, "offset and limit count bytes")
	}

	length := maxRead
	if a.Limit > 0 {
		length = int(min(a.Limit, maxRead))
	}

	part := io.NewSectionReader(n.Content.Reader(src.Files), a.Offset, int64(length))
	if _, err := io.Copy(r.Out, part); err != nil {
		return None{}, fmt.Errorf("reading %s: %w", a.Path, err)
	}

	return None{}, nil
}
