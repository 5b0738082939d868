package main

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
)

func (a *app) printf(format string, args ...any) {
	fmt.Fprintf(a.stdout, format, args...)
}

// note prints something for a person beside the result.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.stderr, "amberfs: "+gitquote.Shown(fmt.Sprintf(format, args...), "\n\t"))
	}
}

func (a *app) say(text string) { a.note("%s", text) }

func (a *app) printJSON(v any) error {
	return gitquote.Encoder(a.stdout).Encode(v)
}

func (a *app) print(v any, text func()) error {
	if a.json {
		return a.printJSON(v)
	}
	text()
	return nil
}

// printFailed prints v, which explains err if there is one, and returns the error that the
// command ends with.
func (a *app) printFailed(v any, err error, text func()) error {
	if perr := a.print(v, text); perr != nil {
		return perr
	}
	if a.json && err != nil {
		return exitCode(fail.KindOf(err).Exit())
	}
	return err
}

func quote(p string) string { return gitquote.Readable(p) }

func plural(n int, one, many string) string { return english.Plural(n, one, many) }

// diffWriter writes a diff, on a terminal in colour and through a pager, which starts with the
// first byte.
type diffWriter struct {
	a       *app
	bar     *progress // is taken off the screen before; may be nil
	w       io.Writer
	color   bool
	inPatch bool
	inHunk  bool
	partial []byte
	n       int64
	refused bool
}

func (d *diffWriter) Write(p []byte) (int, error) {
	if d.w == nil {
		if d.bar != nil {
			d.bar.done()
		}
		d.a.usePager()
		d.w, d.color = d.a.stdout, d.a.color()
	}
	d.n += int64(len(p))
	if !d.color {
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
	_, err := d.w.Write(append(d.paint(l), '\n'))
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
		return slices.Clone(l)
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
		return slices.Clone(l)
	}
	return []byte(c + string(l) + colorReset)
}
