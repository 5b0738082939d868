package console

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Terminal is a pseudo-terminal with a program.
type Terminal struct {
	cmd     *exec.Cmd
	master  *os.File
	written chan []byte
	seen    []byte
}

// Open starts a program in a new session, whose terminal it is.
func Open(cmd *exec.Cmd) (*Terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) // so that a read ends when it is closed
	if err != nil {
		return nil, err
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200})
	}
	var slave *os.File
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, err
	}
	defer slave.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		master.Close()
		return nil, err
	}
	t := &Terminal{cmd: cmd, master: master, written: make(chan []byte)}
	go func() {
		defer close(t.written)
		for {
			b := make([]byte, 4<<10)
			n, err := master.Read(b)
			if n > 0 {
				t.written <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	return t, nil
}

// Session is the number of the terminal's session.
func (t *Terminal) Session() int { return t.cmd.Process.Pid }

// Until reads until what was written meanwhile is enough, and returns it.
func (t *Terminal) Until(enough func(text string) bool, patience time.Duration) (string, error) {
	err := t.read(func() bool { return enough(shown(t.seen)) }, patience)
	text := shown(t.seen)
	if err == nil {
		t.seen = nil
	}
	return text, err
}

// Type types a line, and waits until the terminal has shown it.
func (t *Terminal) Type(line string, patience time.Duration) error {
	if _, err := io.WriteString(t.master, line+"\n"); err != nil {
		return err
	}
	echo := []byte(line + "\r\n")
	err := t.read(func() bool { return bytes.HasPrefix(t.seen, echo) }, patience)
	if err == nil {
		t.seen = t.seen[len(echo):]
	}
	return err
}

func (t *Terminal) read(enough func() bool, patience time.Duration) error {
	limit := time.After(patience)
	for !enough() {
		select {
		case b, ok := <-t.written:
			if !ok {
				return io.ErrUnexpectedEOF
			}
			t.seen = append(t.seen, b...)
		case <-limit:
			return fmt.Errorf("no end after %v", patience)
		}
	}
	return nil
}

// Hangup closes the terminal, and waits for the program that it began with.
func (t *Terminal) Hangup() {
	t.master.Close()
	for range t.written {
		continue
	}
	_ = t.cmd.Wait() // it was hung up
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// shown is what is to be seen of what was written: not what was written over.
func shown(b []byte) string {
	b = escapes.ReplaceAll(bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")), nil)
	lines := strings.Split(string(b), "\n")
	for i, l := range lines {
		lines[i] = l[strings.LastIndexByte(l, '\r')+1:]
	}
	return strings.Join(lines, "\n")
}

// A Step of a dialogue is what is shown, and then typed.
type Step struct {
	Want   string // up to the prompt, and with it
	Typed  string // a line
	Hangup bool   // in place of typing
	Line   int
}

// prompt is that of the shell.
const prompt = "$ "

// Dialogue reads what a terminal shows. Typed are the lines behind "$ ", and what is between « and »;
// «hangup» closes the terminal, and a new one is opened. Lines that begin with # are notes.
func Dialogue(text string) (steps []Step) {
	want := ""
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		before, rest, answered := strings.Cut(line, "«")
		typed, _, _ := strings.Cut(rest, "»")
		command, atPrompt := strings.CutPrefix(line, prompt)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == "«hangup»":
			steps = append(steps, Step{Want: want, Hangup: true, Line: i + 1})
			want = ""
		case atPrompt:
			steps = append(steps, Step{Want: want + prompt, Typed: command, Line: i + 1})
			want = ""
		case answered:
			steps = append(steps, Step{Want: want + before, Typed: typed, Line: i + 1})
			want = ""
		default:
			want += line + "\n"
		}
	}
	return append(steps, Step{Want: want + prompt, Line: strings.Count(text, "\n")})
}

// Reached reports whether a text ends with the line that a step waits for.
func (s Step) Reached(text string) bool {
	_, want := lastLine(s.Want)
	_, got := lastLine(text)
	return s.Hangup && Matches(s.Want, text) || !s.Hangup && Matches(want, got)
}

func lastLine(text string) (before, last string) {
	i := strings.LastIndexByte(text, '\n') + 1
	return text[:i], text[i:]
}
