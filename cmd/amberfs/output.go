package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"golang.org/x/term"

	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/internal/gitquote"
)

// output is the standard output. It remembers the first error, such as a full disk.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

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

func isTerminal(f any) bool { return terminal(f) != nil }

func terminal(f any) *os.File {
	if o, ok := f.(*output); ok {
		f = o.Writer
	}
	if file, ok := f.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}
	return nil
}

// color says whether to colour the standard output (https://no-color.org).
func (a *app) color() bool {
	if env.Get("NO_COLOR") != "" || env.Get("TERM") == "dumb" {
		return false
	}
	return a.closePager != nil || isTerminal(a.stdout)
}

func (a *app) width() int {
	if f, ok := a.out.Writer.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			return w
		}
	}
	return 80
}

func quote(p string) string { return gitquote.Readable(p) }

// usePager sends the output through $AMBERFS_PAGER, $PAGER or less, if it is a terminal.
func (a *app) usePager() {
	if a.json || a.closePager != nil || !isTerminal(a.stdout) {
		return
	}
	name := "less"
	for _, v := range []string{"AMBERFS_PAGER", "PAGER"} {
		if s, ok := env.Lookup(v); ok {
			name = s
			break
		}
	}
	if name == "" || name == "cat" {
		return
	}
	cmd := exec.Command("/bin/sh", "-c", name)
	cmd.Dir = "/" // the pager must not keep the mount busy
	cmd.Stdout, cmd.Stderr = terminal(a.stdout), os.Stderr
	cmd.Env = os.Environ()
	if !slices.ContainsFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "LESS=") }) {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	pipe, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	out := a.stdout
	a.stdout = pipe
	a.closePager = func() {
		pipe.Close()
		_ = cmd.Wait() // its status says nothing: a person may quit at the first page
		a.stdout, a.closePager = out, nil
	}
}

func (a *app) closeOutput() {
	if a.closePager != nil {
		a.closePager()
	}
}

func plural(n int, one, many string) string { return english.Plural(n, one, many) }

const (
	colorBold  = "\x1b[1m"
	colorRed   = "\x1b[31m"
	colorGreen = "\x1b[32m"
	colorCyan  = "\x1b[36m"
	colorReset = "\x1b[m"
)

// diffWriter writes a diff, on a terminal in colour and through a pager, which starts with the
// first byte.
type diffWriter struct {
	a       *app
	bar     *progress // is taken off the screen before; may be nil
	w       io.Writer
	person  bool // reads it, on a terminal; colours are for persons, too
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
		d.person = d.a.closePager != nil || isTerminal(d.a.stdout)
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
