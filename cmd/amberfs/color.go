package main

import (
	"bytes"
	"io"

	"github.com/amberfs/amberfs/internal/gitquote"
)

// The colours of git's own diff.
const (
	colorBold  = "\x1b[1m"
	colorRed   = "\x1b[31m"
	colorGreen = "\x1b[32m"
	colorCyan  = "\x1b[36m"
	colorReset = "\x1b[m"
)

// diffWriter passes a diff on: through a pager and in colour on a terminal, as
// it is otherwise. The pager starts with the first byte, so that an empty diff
// or an error needs none.
type diffWriter struct {
	a       *app
	w       io.Writer
	person  bool // reads it, on a terminal; colours are for persons, too
	color   bool
	inPatch bool
	inHunk  bool
	partial []byte
	n       int64
	refused bool
}

func newDiffWriter(a *app) *diffWriter { return &diffWriter{a: a} }

// Write implements io.Writer.
func (d *diffWriter) Write(p []byte) (int, error) {
	if d.w == nil {
		d.a.usePager()
		d.w, d.color = d.a.stdout, d.a.color()
		d.person = d.a.pager != nil || isTerminal(d.a.stdout)
	}
	d.n += int64(len(p))
	if !d.person && !d.color {
		_, err := d.w.Write(p)
		d.refused = d.refused || err != nil
		return len(p), err
	}
	d.partial = append(d.partial, p...)
	for {
		i := bytes.IndexByte(d.partial, '\n')
		if i < 0 {
			return len(p), nil
		}
		if err := d.line(d.partial[:i]); err != nil {
			d.refused = true
			return 0, err
		}
		d.partial = d.partial[i+1:]
	}
}

// flush writes what has no newline yet.
func (d *diffWriter) flush() error {
	if len(d.partial) == 0 {
		return nil
	}
	err := d.line(d.partial)
	d.partial = nil
	return err
}

func (d *diffWriter) line(l []byte) error {
	l = []byte(gitquote.Shown(string(l), "\t"))
	if d.color {
		l = d.paint(l)
	}
	_, err := d.w.Write(append(l, '\n'))
	return err
}

// paint colours one line of a patch. Inside a hunk only the first byte counts: a removed
// line "-- x" must not look like a header.
func (d *diffWriter) paint(l []byte) []byte {
	c := ""
	switch {
	case bytes.HasPrefix(l, []byte("diff --git ")):
		d.inPatch, d.inHunk = true, false
		c = colorBold
	case !d.inPatch: // a list of files
		return l
	case bytes.HasPrefix(l, []byte("@@ ")):
		d.inHunk = true
		c = colorCyan
	case !d.inHunk:
		c = colorBold
	case bytes.HasPrefix(l, []byte("+")):
		c = colorGreen
	case bytes.HasPrefix(l, []byte("-")):
		c = colorRed
	default:
		return l
	}
	return []byte(c + string(l) + colorReset)
}
