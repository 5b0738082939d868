package diff

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/amberfs/amberfs/internal/turns"
	"github.com/amberfs/amberfs/snapshot/tree"
)

// A survey is what one pass over one side of a change finds, without all of it in memory.
type survey struct {
	id     string // git's; zeros if the side is absent
	size   int64
	lines  int
	ended  bool // by a newline
	binary bool
	whole  []byte // of a small one
}

const noID = "0000000000000000000000000000000000000000"

// surveyPiece is how many bytes of a side are in memory at a time.
const surveyPiece = 256 << 10

// surveyOf reads all the bytes that git would store for n, if they are not more than a limit.
// A larger file counts as binary, and has no id.
func surveyOf(ctx context.Context, src *tree.Source, n *tree.Inode, path string, limit int64) (survey, error) {
	s := survey{id: noID, size: Size(n), ended: true}
	if n == nil {
		return s, nil
	}
	if s.size > limit {
		s.id, s.binary = "", true
		return s, nil
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", s.size)
	r, buf := reader(src, n), make([]byte, min(s.size, surveyPiece))
	for at := int64(0); at < s.size; {
		got, err := io.ReadFull(r, buf[:min(s.size-at, surveyPiece)])
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return s, fmt.Errorf("reading %q: %w", path, err)
		}
		if at == 0 {
			s.binary = isBinary(buf) || s.size > maxText
		}
		s.lines += bytes.Count(buf[:got], []byte{'\n'})
		s.ended = buf[got-1] == '\n'
		h.Write(buf[:got])
		at += int64(got)
	}
	if !s.ended {
		s.lines++
	}
	if s.size <= surveyPiece {
		s.whole = buf
	}
	s.id = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// surveys are those of both sides of a change.
func surveys(ctx context.Context, src *tree.Source, f File, limit int64) (a, b survey, err error) {
	if a, err = surveyOf(ctx, src, f.Before, f.OldPath, limit); err == nil {
		b, err = surveyOf(ctx, src, f.After, f.Path, limit)
	}
	return a, b, err
}

// compare calls fn with the lines of both sides of a change and how they differ, for
// which it takes the given share of the memory that they cost. The error is
// errTooDifferent when that takes too much work.
func (o Options) compare(ctx context.Context, src *tree.Source, f File, a, b survey, share int64, fn func(la, lb [][]byte, edits []edit)) error {
	release, err := o.Memory.Take(ctx, share*cost(a, b))
	if err != nil {
		return err
	}
	defer release()
	before, err := a.data(src, f.Before, f.OldPath)
	if err != nil {
		return err
	}
	after, err := b.data(src, f.After, f.Path)
	if err != nil {
		return err
	}
	la, lb, edits, err := o.effort.compareText(before, after)
	if err == nil {
		fn(la, lb, edits)
	}
	return err
}

// data returns all the bytes of a side.
func (s *survey) data(src *tree.Source, n *tree.Inode, path string) ([]byte, error) {
	if s.size <= surveyPiece {
		return s.whole, nil
	}
	return read(src, n, path)
}

// lineCost is what a line takes in memory beside its bytes while two texts are
// compared: itself as a slice, its number, its place among the numbers and in the
// search for the shortest edit.
const lineCost = 110

// cost is how many bytes it takes to compare two texts.
func cost(a, b survey) int64 { return a.size + b.size + lineCost*int64(a.lines+b.lines) }

// replaced writes a change as one hunk that takes all of the old lines away and adds
// all of the new ones, reading one after the other. The hunk's heading says why.
func (w *writer) replaced(f File, a, b survey, why string) error {
	if a.lines == 0 && b.lines == 0 {
		return nil
	}
	w.heads(f)
	fmt.Fprintf(w, "@@ -%s +%s @@%s\n", hunkRange(0, a.lines), hunkRange(0, b.lines), why)
	if err := w.all('-', f.Before, f.OldPath, a); err != nil {
		return err
	}
	return w.all('+', f.After, f.Path, b)
}

// all writes every line of one side, as it is read.
func (w *writer) all(mark byte, n *tree.Inode, path string, s survey) error {
	if s.lines == 0 {
		return nil
	}
	if _, err := io.Copy(&marked{w: w, mark: mark, begins: true}, reader(w.src, n)); err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	if !s.ended {
		w.WriteString("\n\\ No newline at end of file\n")
	}
	return nil
}

// marked puts a mark before each line that is written to it.
type marked struct {
	w      *writer
	mark   byte
	begins bool // a line
}

func (m *marked) Write(p []byte) (int, error) {
	if err := turns.Yield(m.w.ctx); err != nil {
		return 0, err
	}
	for line := range bytes.Lines(p) {
		if m.begins {
			m.w.WriteByte(m.mark)
		}
		m.w.Write(line)
		m.begins = line[len(line)-1] == '\n'
	}
	return len(p), nil
}
