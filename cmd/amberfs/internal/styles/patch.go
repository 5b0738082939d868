package styles

import (
	"bytes"
	"io"
	"slices"
)

// PatchWriter colours the patch that is written to it, and writes it to W.
type PatchWriter struct {
	W           io.Writer
	InFile      bool   // the first file of the patch has begun; a list of files may come before it
	inHunk      bool   // the last line was in a hunk
	partialLine []byte // the bytes of a line without its newline
}

func (p *PatchWriter) Write(b []byte) (int, error) {
	p.partialLine = append(p.partialLine, b...)

	for {
		i := bytes.IndexByte(p.partialLine, '\n')
		if i < 0 {
			return len(b), nil
		}
		if err := p.writeLine(p.partialLine[:i]); err != nil {
			return 0, err
		}

		p.partialLine = p.partialLine[i+1:]
	}
}

// Flush writes the last line if it has no newline.
func (p *PatchWriter) Flush() error {
	if len(p.partialLine) == 0 {
		return nil
	}
	err := p.writeLine(p.partialLine)
	p.partialLine = nil
	return err
}

func (p *PatchWriter) writeLine(line []byte) error {
	_, err := p.W.Write(append(p.colored(line), '\n'))
	return err
}

// colored returns a line of a patch with its colour. In a hunk it looks at the first byte only, because a removed line
// "-- x" looks like a header.
func (p *PatchWriter) colored(line []byte) []byte {
	color := ""

	switch {
	case bytes.HasPrefix(line, []byte("diff --git ")):
		p.InFile, p.inHunk = true, false
		color = Bold
	case !p.InFile: // the line belongs to a list of files
		return slices.Clone(line)
	case bytes.HasPrefix(line, []byte("@@ ")):
		p.inHunk = true
		color = Cyan
	case !p.inHunk:
		color = Bold
	case bytes.HasPrefix(line, []byte("+")):
		color = Green
	case bytes.HasPrefix(line, []byte("-")):
		color = Red
	default:
		return slices.Clone(line)
	}

	return []byte(color + string(line) + Reset)
}
