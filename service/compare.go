package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/amberfs/amberfs/diff"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// files has the operations that compare files, and that name and undo the actors who changed them.
type files struct {
	registry actorRegistry
}

// An actorRegistry has the actors of processes.
type actorRegistry interface {
	Register(pid, uid, view uint32, name string) error
	IsRegistered(name string, view uint32) bool
}

// diff writes the differences between two states. If a.By is set, it compares only the files that this actor
// changed between them.
func (fl *files) diff(ctx context.Context, r *Request, a Diff) (None, error) {
	if a.By != "" {
		changed, err := fl.pathsChangedBy(ctx, r, a.By, a.A, a.B, a.Paths)
		if err != nil || len(changed) == 0 {
			return None{}, err
		}
		a.Paths = changed
	}

	charge := r.budget(ListMemory).NewCharge()
	defer charge.Release()

	return None{}, withStates(r, a.A, a.B, func(from, to *tree.State) error {
		o := diff.Options{Binary: a.Binary, Width: a.Width, Memory: r.budget(TextMemory), List: charge, Paths: diffPaths(a.Paths...)}
		switch a.Format {
		case "", "patch":
			return diff.Write(ctx, r.Out, r.source, from, to, o)
		case "stat":
			return diff.Stat(ctx, r.Out, r.source, from, to, o)
		case "name-status":
			return diff.NameStatus(ctx, r.Out, r.source, from, to, o)
		}

		return errs.Fail(errs.Invalid, "there is no diff format %q", a.Format)
	})
}

// withStates calls fn with the states with the names a and b, see holdState. Only b can be "", the name of the
// present state. The states are protected from gc until fn returns.
func withStates(r *Request, a, b string, fn func(from, to *tree.State) error) error {
	if a == "" {
		_, err := r.Workspace.Find(a) // fails with the error for an empty name
		return err
	}

	from, release, err := holdState(r, a)
	if err != nil {
		return err
	}
	defer release()

	to, release, err := holdState(r, b)
	if err != nil {
		return err
	}
	defer release()

	return fn(from, to)
}

// forkStatePrefix is the prefix of the name of a fork's state, see holdState.
const forkStatePrefix = naming.ForksDir + "/"

// holdState returns the state with a name. It protects the state's objects from gc until release is called. The name
// is one of these:
//
//   - "", for the present state;
//   - the name of a snapshot;
//   - if the caller uses the socket, .forks/F for the present state of the fork F, or .forks/F/.snapshots/S for a
//     snapshot in it.
func holdState(r *Request, name string) (st *tree.State, release func(), err error) {
	ws := r.Workspace

	for {
		rest, ok := strings.CutPrefix(name, forkStatePrefix)
		if !ok {
			break
		}

		if !r.Caller.ViaSocket {
			return nil, nil, errs.Fail(errs.Perm, "a state of another workspace needs the store's socket, which cannot be reached from here").
				WithHint("compare the files below %s", naming.ForksDir)
		}

		fork, in, _ := strings.Cut(rest, "/")
		next, err := ws.Forks().Named(fork)
		if err != nil {
			return nil, nil, err
		}
		ws, name = next, strings.TrimPrefix(in, naming.SnapshotsDir+"/")
	}
	if name == "" {
		return ws.HoldVisible(r.Caller)
	}

	return ws.HoldState(name)
}

// changes lists the files that differ between two states. If a.Lines is set, it also counts the changed lines of
// the first files, see countLines.
func (fl *files) changes(ctx context.Context, r *Request, a Changes) (Diffed, error) {
	d := Diffed{Paths: []DiffedFile{}}
	charge := r.listMemoryCharge()

	if a.By != "" {
		changed, err := fl.pathsChangedBy(ctx, r, a.By, a.A, a.B, a.Paths)
		if err != nil || len(changed) == 0 {
			return d, err
		}
		a.Paths = changed
	}

	err := withStates(r, a.A, a.B, func(from, to *tree.State) (err error) {
		var files []diff.File
		if a.Quick && a.Limit > 0 {
			files, d.More, err = diff.FirstFiles(ctx, r.source, from, to, diff.Options{Paths: diffPaths(a.Paths...)}, a.Limit)
			if err != nil {
				return err
			}
		}

		if !d.More {
			files, err = diff.Files(ctx, r.source, from, to, diff.Options{List: charge, Paths: diffPaths(a.Paths...)})
			if err != nil {
				return err
			}
		}

		d.Files = len(files)
		if a.Limit > 0 {
			files = files[:min(a.Limit, len(files))]
		}
		for _, f := range files {
			d.Paths = append(d.Paths, diffedFile(f))
		}
		if !a.Lines || d.More {
			return nil
		}

		return countLines(ctx, r, files, d.Paths)
	})

	return d, err
}

// countLines sets the numbers of changed lines of the first maxCounted files. After countTime it leaves the
// remaining files without numbers.
func countLines(ctx context.Context, r *Request, files []diff.File, out []DiffedFile) error {
	const maxCounted, countTime = 300, time.Second / 2
	countCtx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()

	o := diff.Options{Memory: r.budget(TextMemory)}
	err := diff.CountChangedLines(countCtx, r.source, files[:min(len(files), maxCounted)], o, func(i int, added, removed int64, binary bool) {
		if out[i].Binary = binary; !binary {
			out[i].Added, out[i].Removed = &added, &removed
		}
	})
	if countCtx.Err() != nil {
		return ctx.Err()
	}

	return err
}

func diffedFile(f diff.File) DiffedFile {
	d := DiffedFile{Status: string(rune(f.Status)), Path: f.Path, Raw: naming.Base64(f.Path), OldSize: diff.Size(f.Before), NewSize: diff.Size(f.After)}
	if f.Status == diff.Renamed {
		d.From, d.RawFrom, d.Score = f.OldPath, naming.Base64(f.OldPath), f.Similarity
	}
	return d
}

// Diffs are returned in parts: a browser or a model cannot use a diff of a hundred megabytes.
const (
	// maxHunkLines is the largest number of lines in a part, and the default. Each line is cut off after
	// maxLineBytes.
	maxHunkLines = 500
	maxLineBytes = 4 << 10
	// maxReadBytes is the largest number of bytes that one call of the operation file returns.
	maxReadBytes = 64 << 20
)

// Hunks has the arguments of the operation hunks.
type Hunks struct {
	A      string          `json:"a" jsonschema:"the snapshot to compare from"`
	B      string          `json:"b,omitempty" jsonschema:"the snapshot to compare with; if empty, the present state"`
	Path   naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	From   naming.BytePath `json:"from,omitempty" jsonschema:"its old path, if it was renamed"`
	Cursor int             `json:"cursor,omitempty" jsonschema:"next of the answer before"`
	Lines  int             `json:"lines,omitempty" jsonschema:"at most so many lines; 0: 500"`
}

// HunkList is the result of the operation hunks.
type HunkList struct {
	diff.Text
	Next int `json:"next,omitempty" jsonschema:"the cursor of the next part, if any"`
}

func (*files) hunks(ctx context.Context, r *Request, a Hunks) (HunkList, error) {
	var out HunkList
	if a.Lines <= 0 || a.Lines > maxHunkLines {
		a.Lines = maxHunkLines
	}

	o := diff.Options{Memory: r.budget(TextMemory), SkipLines: max(0, a.Cursor), MaxLines: a.Lines}
	err := withStates(r, a.A, a.B, func(from, to *tree.State) (err error) {
		out.Text, err = diff.TextOf(ctx, r.source, from, to, string(a.Path), string(a.From), o)
		return err
	})
	out.Hunks, out.Next = sliceHunks(out.Hunks, out.Skipped, o.SkipLines, o.MaxLines)
	return out, err
}

// sliceHunks returns the part of a diff that begins at the line with the number cursor and has at most maxLines
// lines. The result next is the cursor of the following part, 0 at the end. seen is the number of lines in the hunks
// of the diff that precede the parameter hunks.
func sliceHunks(hunks []diff.Hunk, seen, cursor, maxLines int) (part []diff.Hunk, next int) {
	part = []diff.Hunk{}
	room := maxLines

	for _, h := range hunks {
		skip := max(0, cursor-seen)
		seen += len(h.Lines)

		if skip < len(h.Lines) && room > 0 {
			h = sliceHunk(h, skip, min(len(h.Lines), skip+room))
			room -= len(h.Lines)
			part = append(part, h)
		}
	}

	if cursor+maxLines < seen {
		next = cursor + maxLines
	}

	return part, next
}

// sliceHunk returns the lines [from, to) of a hunk as a hunk with its own line numbers.
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
		if len(l.Text) > maxLineBytes {
			l.Text = strings.ToValidUTF8(l.Text[:maxLineBytes], "") + " …"
		}

		part.Lines = append(part.Lines, l)
	}

	return part
}

// File has the arguments of the operation file.
type File struct {
	Path     naming.BytePath `json:"path" jsonschema:"the file, relative to the workspace"`
	Snapshot string          `json:"snapshot,omitempty" jsonschema:"the snapshot; if empty, the present state"`
	Offset   int64           `json:"offset,omitempty" jsonschema:"bytes to skip"`
	Limit    int64           `json:"limit,omitempty" jsonschema:"at most this many bytes; 0: 64 MiB"`
}

func (*files) read(_ context.Context, r *Request, a File) (None, error) {
	st, release, err := holdState(r, a.Snapshot)
	if err != nil {
		return None{}, err
	}
	defer release()

	src := r.source
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

	length := maxReadBytes
	if a.Limit > 0 {
		length = int(min(a.Limit, maxReadBytes))
	}

	part := io.NewSectionReader(n.Content.Reader(src.Files), a.Offset, int64(length))
	if _, err := io.Copy(r.Out, part); err != nil {
		return None{}, fmt.Errorf("reading %s: %w", a.Path, err)
	}

	return None{}, nil
}
