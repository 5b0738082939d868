package main

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/errs"
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
		return exitCode(errs.ScriptKind(err).Exit())
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
	colours *styles.Patch // that w is, or nil
	n       int64
	refused bool
}

func (d *diffWriter) Write(p []byte) (int, error) {
	if d.w == nil {
		if d.bar != nil {
			d.bar.done()
		}

		d.a.usePager()

		if d.w = d.a.stdout; d.a.color() {
			d.colours = &styles.Patch{W: d.w}
			d.w = d.colours
		}
	}

	d.n += int64(len(p))
	n, err := d.w.Write(p)
	d.refused = d.refused || err != nil

	return n, err
}

// flush writes what has no newline yet.
func (d *diffWriter) flush() error {
	if d.colours == nil {
		return nil
	}
	return d.colours.Flush()
}
