package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/question"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/internal/env"
)

// output is the standard output or the standard error. On a terminal or a pager it escapes control
// characters, because text from a store may contain them. It does not escape newlines, tabs and the
// styles of this program. To a file or a pipe it writes text unchanged.
type output struct {
	io.Writer
	isInteractive bool    // it is a terminal or a pager
	screen        *screen // the terminal that it writes to, nil for none
	partialRune   []byte  // the beginning of an incomplete character
	err           error   // the first error of a write, such as a full disk
}

// screen is the terminal, which both outputs share.
type screen struct {
	mu  sync.Mutex
	bar *progress // the bar on the screen, or nil
}

func newOutput(w io.Writer, s *screen) *output {
	o := &output{Writer: w}
	if isTerminal(w) {
		o.isInteractive, o.screen = true, s
	}
	return o
}

func (o *output) Write(p []byte) (int, error) {
	if !o.isInteractive {
		n, err := o.Writer.Write(p)
		o.recordError(err)
		return n, err
	}

	if o.screen != nil {
		defer o.screen.hideBar()()
	}

	text := append(o.partialRune, p...)
	end := len(text)
	for i := end - 1; i >= 0 && i > end-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if !utf8.FullRune(text[i:]) {
				end = i
			}
			break
		}
	}

	o.partialRune = slices.Clone(text[end:])
	_, err := io.WriteString(o.Writer, styles.ForTerminal(string(text[:end])))
	o.recordError(err)
	if err != nil {
		return 0, err
	}

	return len(p), nil
}

func (o *output) recordError(err error) {
	if err != nil && o.err == nil {
		o.err = err
	}
}

// flush writes the beginning of an incomplete character.
func (o *output) flush() {
	if len(o.partialRune) > 0 {
		_, err := io.WriteString(o.Writer, styles.ForTerminal(string(o.partialRune)))
		o.recordError(err)
		o.partialRune = nil
	}
}

// hideBar removes the progress bar from the screen. Until the caller calls unlock, nothing else draws on the screen.
func (s *screen) hideBar() (unlock func()) {
	s.mu.Lock()

	if p := s.bar; p != nil {
		p.mu.Lock()
		if p.bar != nil {
			_ = p.bar.Clear() // it fails if the terminal has ended
		}

		return func() {
			p.mu.Unlock()
			s.mu.Unlock()
		}
	}

	return s.mu.Unlock
}

func isTerminal(f any) bool { return terminalFile(f) != nil }

func terminalFile(f any) *os.File {
	if o, ok := f.(*output); ok {
		f = o.Writer
	}
	if file, ok := f.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return file
	}

	return nil
}

// canAsk reports whether commands can ask the user: the input and the standard error are terminals.
func (a *app) canAsk() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// questionTerminal returns the terminal for questions, which are written to the standard error.
func (a *app) questionTerminal() question.Terminal {
	pagerApp := *a
	pagerApp.stdout, pagerApp.json = a.stderr, false
	return question.Terminal{
		In: a.stdin, Out: a.stderr, Color: pagerApp.usesColor(), Verbose: a.verbose,
		Page: func(write func(io.Writer) error) (hasOutput bool, err error) {
			out := &diffWriter{a: &pagerApp}
			err = errors.Join(write(out), out.flush())
			pagerApp.closeOutput()
			if out.writeFailed { // the user has ended the pager
				err = nil
			}

			return out.writtenBytes > 0, err
		},
		Run: func(cmd *exec.Cmd) error {
			cmd.Stdin, cmd.Stdout, cmd.Stderr = terminalFile(a.stdin), terminalFile(a.stderr), terminalFile(a.stderr)
			return cmd.Run()
		},
	}
}

// usesColor reports whether to color the standard output (https://no-color.org).
func (a *app) usesColor() bool {
	if env.Get("NO_COLOR") != "" || env.Get("TERM") == "dumb" {
		return false
	}
	return a.closePager != nil || isTerminal(a.stdout)
}

func (a *app) terminalWidth() int {
	w, _ := terminalSize(a.out)
	return w
}

// terminalSize returns the size of a terminal, 80 × 24 if it is unknown.
func terminalSize(f any) (width, height int) {
	width, height = 80, 24

	if file := terminalFile(f); file != nil {
		if w, h, err := term.GetSize(int(file.Fd())); err == nil && w > 20 && h > 1 {
			return w, h
		}
	}

	return width, height
}

// usePager sends the standard output, if it is a terminal, through the pager $AMBERFS_PAGER or $PAGER, by default
// less. If less is not installed, or the pager fails before it has read anything, the output is printed without a
// pager.
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
	if _, err := exec.LookPath(name); err != nil && name == "less" {
		return
	}

	cmd := exec.Command("/bin/sh", "-c", name)
	cmd.Dir = "/" // so that the pager does not keep the mount busy
	cmd.Stdout, cmd.Stderr = terminalFile(a.stdout), os.Stderr
	cmd.Env = os.Environ()
	if !slices.ContainsFunc(cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, "LESS=") }) {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}

	r, w, err := os.Pipe()
	if err != nil {
		return
	}

	cmd.Stdin = r
	if cmd.Start() != nil {
		r.Close()
		w.Close()
		return
	}

	out := a.stdout
	pipe := &pagerPipe{File: w}
	paged := &output{Writer: pipe, isInteractive: true}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer r.Close() // then writes to the pager fail with EPIPE

		if cmd.Wait() == nil {
			return
		}

		unread, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil || int64(unread) < pipe.writtenBytes.Load() {
			return // the user has ended the pager
		}

		a.note("the pager %q failed", name)
		_, _ = io.Copy(terminalFile(out), r) // it fails if the terminal has ended
	}()

	a.stdout = paged
	a.closePager = func() {
		paged.flush()
		w.Close()
		<-ended // the status does not matter: the user may quit at the first page
		a.stdout, a.closePager = out, nil
	}
}

// pagerPipe counts the bytes that were written to a pager.
type pagerPipe struct {
	*os.File
	writtenBytes atomic.Int64
}

func (p *pagerPipe) Write(b []byte) (int, error) {
	n, err := p.File.Write(b)
	p.writtenBytes.Add(int64(n))
	return n, err
}

// closeOutput writes the rest of both outputs, and waits for the end of the pager.
func (a *app) closeOutput() {
	if a.closePager != nil {
		a.closePager()
	}

	for _, w := range []io.Writer{a.stdout, a.stderr} {
		if o, ok := w.(*output); ok {
			o.flush()
		}
	}
}
