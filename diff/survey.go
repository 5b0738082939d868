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

// A survey has the properties of one side of a change that are found by reading it once, in pieces.
type survey struct {
	id              string // git's id of the blob; zeros if the side is absent, "" if it is too large
	size            int64
	lines           int
	endsWithNewline bool // also set for an empty side
	binary          bool
	contents        []byte // the bytes of the side, if they are not larger than surveyPieceSize
}

const noID = "0000000000000000000000000000000000000000"

// surveyPieceSize is the size of the pieces in bytes.
const surveyPieceSize = 256 << 10

// surveyOf reads all the bytes that git would store for n. A file that is larger than limit is not
// read; it counts as binary and has no id.
func surveyOf(ctx context.Context, src *tree.Source, n *tree.Inode, path string, limit int64) (s survey, err error) {
	switch size := Size(n); {
	case n == nil:
		return survey{id: noID, endsWithNewline: true}, nil
	case size > limit:
		return survey{size: size, binary: true, endsWithNewline: true}, nil
	default:
		s, err = surveyBytes(ctx, blobReader(src, n), size)
	}
	if err != nil {
		return s, fmt.Errorf("reading %q: %w", path, err)
	}

	return s, nil
}

// surveyBytes does the work of surveyOf for a side with size bytes.
func surveyBytes(ctx context.Context, r io.Reader, size int64) (survey, error) {
	s := survey{size: size, endsWithNewline: true}
	h := sha1.New() // git's id is the SHA-1 of this header and the contents
	fmt.Fprintf(h, "blob %d\x00", size)
	buf := make([]byte, min(size, surveyPieceSize))

	for at := int64(0); at < size; {
		got, err := io.ReadFull(r, buf[:min(size-at, surveyPieceSize)])
		if err = errors.Join(err, turns.Yield(ctx)); err != nil {
			return s, err
		}
		if at == 0 {
			s.binary = isBinary(buf) || size > maxTextSize
		}

		s.lines += bytes.Count(buf[:got], []byte{'\n'})
		s.endsWithNewline = buf[got-1] == '\n'
		h.Write(buf[:got])
		at += int64(got)
	}

	if !s.endsWithNewline {
		s.lines++
	}
	if size <= surveyPieceSize {
		s.contents = buf
	}

	s.id = hex.EncodeToString(h.Sum(nil))
	return s, nil
}

// surveySides returns the surveys of both sides of a change.
func surveySides(ctx context.Context, src *tree.Source, f File, limit int64) (a, b survey, err error) {
	if a, err = surveyOf(ctx, src, f.Before, f.OldPath, limit); err != nil {
		return a, b, err
	}
	b, err = surveyOf(ctx, src, f.After, f.Path, limit)
	return a, b, err
}

// compare compares both sides of a change, and calls fn with their lines and the edits between them. It
// reserves factor times the memory of the comparison until fn returns. The error is errTooDifferent if
// the comparison takes too many steps.
func (o Options) compare(ctx context.Context, src *tree.Source, f File, a, b survey, factor int64, fn func(la, lb [][]byte, edits []edit)) error {
	release, err := o.Memory.Take(ctx, factor*comparisonMemory(a, b))
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

	la, lb, edits, err := o.steps.compareText(before, after)
	if err != nil {
		return err
	}

	fn(la, lb, edits)

	return nil
}

// data returns all the bytes of the side, whose inode is n.
func (s *survey) data(src *tree.Source, n *tree.Inode, path string) ([]byte, error) {
	if s.size <= surveyPieceSize {
		return s.contents, nil
	}
	return readBlob(src, n, path)
}

// lineMemory is the memory in bytes of a line while two texts are compared, without its text: the slice
// of the line, its number, its entry in lineIDs and its place in the search for the shortest edit.
const lineMemory = 110

// comparisonMemory returns the memory in bytes for the comparison of two texts.
func comparisonMemory(a, b survey) int64 { return a.size + b.size + lineMemory*int64(a.lines+b.lines) }

// writeReplaced writes a change as one hunk that removes all old lines and adds all new ones. It does
// not need the lines in memory. heading follows the @@ of the hunk.
func (w *writer) writeReplaced(f File, a, b survey, heading string) error {
	if a.lines == 0 && b.lines == 0 {
		return nil
	}
	w.writeNames(f)
	fmt.Fprintf(w, "@@ -%s +%s @@%s\n", hunkRange(0, a.lines), hunkRange(0, b.lines), heading)
	if err := w.writeSide('-', f.Before, f.OldPath, a); err != nil {
		return err
	}

	return w.writeSide('+', f.After, f.Path, b)
}

// writeSide writes all lines of one side after a mark.
func (w *writer) writeSide(mark byte, n *tree.Inode, path string, s survey) error {
	if s.lines == 0 {
		return nil
	}
	if _, err := io.Copy(&markWriter{w: w, mark: mark, atStart: true}, blobReader(w.src, n)); err != nil {
		return fmt.Errorf("reading %q: %w", path, err)
	}
	if !s.endsWithNewline {
		w.WriteString("\n\\ No newline at end of file\n")
	}

	return nil
}

// A markWriter writes a mark before each line.
type markWriter struct {
	w       *writer
	mark    byte
	atStart bool // the next byte begins a line
}

func (m *markWriter) Write(p []byte) (int, error) {
	if err := turns.Yield(m.w.ctx); err != nil {
		return 0, err
	}

	for line := range bytes.Lines(p) {
		if m.atStart {
			m.w.WriteByte(m.mark)
		}

		m.w.Write(line)
		m.atStart = line[len(line)-1] == '\n'
	}

	return len(p), nil
}
