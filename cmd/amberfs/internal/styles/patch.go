package styles

import (
	"bytes"
	"io"
	"slices"
)

// Patch colours a patch that is written to it.
type Patch struct {
	W       io.Writer
	Hunks   bool   // the first file of the patch has begun; a list of files may come before it
	inHunk  bool   // the last line was in a hunk
	partial []byte // the bytes of a line without its newline
}

func (p *Patch) Write(b []byte) (int, error) {
	p.partial = append(p.partial, b...)

	for {
		i := bytes.IndexByte(p.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := p.line(p.partial[:i]); err != nil {
			return 0, err
		}

		p.partial = p.partial[i+1:]
	}
}

// Flush writes the last line if it has no newline.
func (p *Patch) Flush() error {
	if len(p.partial) == 0 {
		return nil
	}
	err := p.line(p.partial)
	p.partial = nil
	return err
}

func (p *Patch) line(l []byte) error {
	_, err := p.W.Write(append(p.paint(l), '\n'))
	return err
}

// paint colours one line of a patch. In a hunk it looks at the first byte only, because a removed line "-- x" looks
// like a header.
func (p *Patch) paint(l []byte) []byte {
	c := ""

	switch {
	case bytes.HasPrefix(l, []byte("diff --git ")):
		p.Hunks, p.inHunk = true, false
		c = Bold
	case !p.Hunks: // a list of files
		return slices.Clone(l)
	case bytes.HasPrefix(l, []byte("@@ ")):
		p.inHunk = true
		c = Cyan
	case !p.inHunk:
		c = Bold
	case bytes.HasPrefix(l, []byte("+")):
		c = Green
	case bytes.HasPrefix(l, []byte("-")):
		c = Red
	default:
		return slices.Clone(l)
	}

	return []byte(c + string(l) + Reset)
}
