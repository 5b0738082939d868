package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/gitquote"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/events"
	"github.com/amberfs/amberfs/snapshot/graft"
)

func (a *app) printf(format string, args ...any) {
	fmt.Fprintf(a.stdout, format, args...)
}

// note prints a remark on the standard error, unless the user wants errors only.
func (a *app) note(format string, args ...any) {
	if !a.quiet {
		fmt.Fprintln(a.stderr, "amberfs: "+gitquote.EscapeControls(fmt.Sprintf(format, args...), "\n\t"))
	}
}

func (a *app) noteText(text string) { a.note("%s", text) }

func (a *app) printJSON(v any) error {
	return gitquote.Encoder(a.stdout).Encode(v)
}

// print prints a result. With --json it prints v as JSON. Otherwise it calls the function text, which prints the result.
func (a *app) print(v any, text func()) error {
	if a.json {
		return a.printJSON(v)
	}
	text()
	return nil
}

// printFailed prints v, the details of err, as print does. It returns the error with which the command ends: err or, with
// --json, only the exit status of err.
func (a *app) printFailed(v any, err error, text func()) error {
	if perr := a.print(v, text); perr != nil {
		return perr
	}
	if a.json && err != nil {
		return exitCode(errs.ScriptKind(err).ExitStatus())
	}
	return err
}

func quote(p string) string { return gitquote.ReadableName(p) }

func plural(n int, one, many string) string { return english.Plural(n, one, many) }

// A diffWriter writes a diff. On a terminal, it uses colours and a pager, which starts with the
// first byte.
type diffWriter struct {
	a            *app
	bar          *progress // removed from the screen before the first byte; may be nil
	out          io.Writer
	patchWriter  *styles.PatchWriter // equal to out if the diff is written in colours, else nil
	writtenBytes int64
	writeFailed  bool // a write has failed
}

func (d *diffWriter) Write(p []byte) (int, error) {
	if d.out == nil {
		if d.bar != nil {
			d.bar.done()
		}

		d.a.usePager()

		if d.out = d.a.stdout; d.a.usesColor() {
			d.patchWriter = &styles.PatchWriter{W: d.out}
			d.out = d.patchWriter
		}
	}

	d.writtenBytes += int64(len(p))
	n, err := d.out.Write(p)
	d.writeFailed = d.writeFailed || err != nil

	return n, err
}

// flush writes an incomplete last line.
func (d *diffWriter) flush() error {
	if d.patchWriter == nil {
		return nil
	}
	return d.patchWriter.Flush()
}

// printRows prints rows, on a terminal in aligned columns, otherwise with tabs between the columns.
func (a *app) printRows(rows [][]string) {
	if isTerminal(a.stdout) || a.closePager != nil {
		printTable(a.stdout, rows)
		return
	}
	a.printf("%s", service.JoinRows(rows, "\t"))
}

// printTable prints rows in aligned columns.
func printTable(w io.Writer, rows [][]string) {
	fmt.Fprint(w, service.AlignColumns(rows))
}

// maxPrintedPaths is the maximum number of paths that are listed without -v. Only the number of further paths is printed.
const maxPrintedPaths = 20

// cutList returns the paths that are listed: all with -v, otherwise the first maxPrintedPaths.
func (a *app) cutList(paths []graft.PathChange) []graft.PathChange {
	if a.verbose || len(paths) <= maxPrintedPaths {
		return paths
	}
	return paths[:maxPrintedPaths]
}

// printEvent prints an event of an operation. line is the event as JSON.
func printEvent(a *app, line json.RawMessage) error {
	if a.json {
		_, err := fmt.Fprintf(a.stdout, "%s\n", gitquote.EscapeJSON(line))
		return err
	}

	var e events.Event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading an event: %w", err)
	}

	_, err := fmt.Fprintln(a.stdout, service.EventText(e, func(action string) string { return coloredAction(a, action) }))
	return err
}

// coloredAction returns the action of an event, in colour if the output has colours.
func coloredAction(a *app, action string) string {
	if !a.usesColor() {
		return action
	}
	return cmp.Or(actionColors[strings.TrimSpace(action)], styles.Cyan) + action + styles.Reset
}

var actionColors = map[string]string{"created": styles.Green, "deleted": styles.Red, "restored": styles.Bold, "captured": styles.Bold}
