package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/schollz/progressbar/v3"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/styles"
	"github.com/amberfs/amberfs/service"
)

// TestOutputForTerminals: control sequences in a text are escaped, whatever the sizes of the writes. The styles of
// this program are not.
func TestOutputForTerminals(t *testing.T) {
	evil := "esc\x1b]0;title\x07 \x1b[31mred c1\u009b31m bidi\u202e cut\xff\xe2\x82 cr\rover\tä€😀\n"
	want := `esc\033]0;title\a \033[31mred c1\302\23331m bidi\342\200\256 cut\377\342\202 cr\rover` + "\tä€😀\n"
	for _, piece := range []int{1, 2, 3, 5, len(evil)} {
		var b bytes.Buffer
		o := &output{Writer: &b, isInteractive: true}
		for rest := evil; rest != ""; {
			n := min(piece, len(rest))
			if m, err := o.Write([]byte(rest[:n])); m != n || err != nil {
				t.Fatal(m, err)
			}
			rest = rest[n:]
		}
		if b.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", piece, b.String(), want)
		}
	}
	var b bytes.Buffer
	o := &output{Writer: &b, isInteractive: true}
	fmt.Fprintf(o, "%s%s%s%s%s", styles.CursorUp, styles.ClearLine, styles.Bold+styles.Red, "a\x1b[32mb", styles.Reset)
	if got := b.String(); got != "\x1b[A\x1b[K\x1b[1m\x1b[31m"+`a\033[32mb`+"\x1b[m" {
		t.Errorf("styles: %q", got)
	}
	b.Reset()
	o.Write([]byte("\xe2"))
	o.flush()
	if b.String() != `\342` {
		t.Errorf("the beginning of a character at the end: %q", b.String())
	}
	b.Reset()
	o = &output{Writer: &b}
	o.Write([]byte(evil))
	if b.String() != evil {
		t.Errorf("for a program: %q", b.String())
	}
}

// TestSpinner: a progress bar has no goroutine that draws. Such a goroutine could draw over a later message.
func TestSpinner(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		newBar(service.Progress{What: "applying", Unit: "files"})
	}
	if n := runtime.NumGoroutine() - before; n > 0 {
		t.Errorf("%d goroutines draw", n)
	}
}

// TestMessagesOverProgress: the progress bar is removed from the screen before a message is written.
func TestMessagesOverProgress(t *testing.T) {
	var b bytes.Buffer
	s := &screen{}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(&b), progressbar.OptionSetSpinnerChangeInterval(0))
	s.bar = &progress{bar: bar}
	_ = bar.Set64(1)
	o := &output{Writer: &b, isInteractive: true, screen: s}
	o.Write([]byte("message\n"))
	if !strings.HasSuffix(b.String(), " \r         \rmessage\n") {
		t.Errorf("printed over the bar: %q", b.String())
	}
}
