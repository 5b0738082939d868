package console

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A Shell is a bash in which one command is run after the other.
type Shell struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
}

// end is a line that tells that a command has ended, with its exit status.
const end = "\x01end of command "

// Start starts a shell in a directory with an environment.
func Start(dir string, env []string) (*Shell, error) {
	cmd := exec.Command("bash", "--norc", "--noprofile")
	cmd.Dir, cmd.Env = dir, env
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Shell{cmd: cmd, in: in, lines: make(chan string)}
	go func() {
		defer close(s.lines)
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- line
		}
	}()
	return s, nil
}

// Run runs one command and returns what it printed and its exit status.
func (s *Shell) Run(text string, patience time.Duration) (printed string, status int, err error) {
	// Without standard input, which is ours; in braces, so that cd stays.
	if _, err := fmt.Fprintf(s.in, "{ %s\n} </dev/null\nprintf '%s%%d\\n' $?\n", text, end); err != nil {
		return "", 0, err
	}
	var b strings.Builder
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				return b.String(), 0, fmt.Errorf("the shell has ended")
			}
			// What does not end with a newline stands before it.
			before, code, found := strings.Cut(line, end)
			b.WriteString(before)
			if found {
				status, err := strconv.Atoi(strings.TrimSpace(code))
				return b.String(), status, err
			}
		case <-limit:
			return b.String(), 0, fmt.Errorf("no end after %v", patience)
		}
	}
}

// Close ends the shell.
func (s *Shell) Close() error {
	s.in.Close()
	for range s.lines { // its last words
		continue
	}
	return s.cmd.Wait()
}
