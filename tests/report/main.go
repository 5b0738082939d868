// Package main is the command report, which makes what go test prints from its events, and
// remembers which tests failed or were skipped and why.
//
//	go test -json ./... | report FILE   prints it, and appends results to FILE
//	report -summary FILE...             prints the tests that were skipped, one a line, and what failed
//	report -strict FILE...              the same; a test that tests/arch does not list is an error
//
// A test that another run in the files has passed, such as one as root, was not skipped.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// event is one of test2json's.
type event struct {
	Action  string
	Package string
	Test    string  `json:",omitempty"`
	Output  string  `json:",omitempty"`
	Elapsed float64 `json:",omitempty"`
}

func (e event) name() string { return e.Package + " " + e.Test }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tests/report:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && !strings.HasPrefix(args[0], "-"):
		f, err := os.OpenFile(args[0], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		return errors.Join(printed(os.Stdin, os.Stdout, f), f.Close())
	case len(args) > 1 && (args[0] == "-summary" || args[0] == "-strict"):
		skipped, failed, err := results(args[1:])
		if err != nil {
			return err
		}
		return summary(os.Stdout, skipped, failed, args[0] == "-strict")
	}
	return errors.New("usage: report FILE | report -summary|-strict FILE...")
}

// printed writes to out what go test without -json would, package by package as
// they end, and to results the last event of each test.
func printed(in io.Reader, out, results io.Writer) error {
	tests := map[string][]string{} // the output of those that run
	closed := map[string]bool{}    // packages whose last line was printed
	record := json.NewEncoder(results)
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line == "" && err == io.EOF {
			return nil
		} else if err != nil && err != io.EOF {
			return err
		}
		var e event
		if json.Unmarshal([]byte(line), &e) != nil {
			fmt.Fprint(out, line) // go itself failed
			continue
		}
		switch e.Action {
		case "output":
			if e.Test == "" {
				if e.Output != "PASS\n" {
					fmt.Fprint(out, e.Output)
				}
				closed[e.Package] = strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t") || strings.HasPrefix(e.Output, "?")
			} else {
				tests[e.name()] = append(tests[e.name()], e.Output)
			}
		case "build-output":
			fmt.Fprint(out, e.Output)
		case "pass", "fail", "skip":
			if e.Test == "" {
				// Tests that had not ended, as the process did before.
				for name, output := range tests {
					if strings.HasPrefix(name, e.Package+" ") {
						fmt.Fprint(out, strings.Join(output, ""))
						delete(tests, name)
					}
				}
				if !closed[e.Package] { // a test binary alone, without go test
					fmt.Fprintf(out, "%-4s\t%s\t%.3fs\n", map[string]string{"pass": "ok", "fail": "FAIL"}[e.Action], e.Package, e.Elapsed)
				}
				continue
			}
			output := tests[e.name()]
			delete(tests, e.name())
			if e.Action == "fail" {
				for _, line := range output {
					if !strings.HasPrefix(line, "=== ") {
						fmt.Fprint(out, line)
					}
				}
			}
			e.Output = ""
			switch e.Action {
			case "skip":
				e.Output = reason(output)
			case "fail":
				e.Output = messages(output)
			}
			if err := record.Encode(e); err != nil {
				return err
			}
		}
	}
}

var message = regexp.MustCompile(`^ +\w+\.go:\d+: `)

// messages are the first lines of the first ten messages of a test that failed.
// Among all that the test printed, such as the log of a daemon, they are hard to find.
func messages(output []string) string {
	var out strings.Builder
	left := 10
	for _, line := range output {
		if left > 0 && message.MatchString(line) {
			left--
			fmt.Fprintf(&out, "  %.300s\n", strings.TrimSpace(line))
		}
	}
	return out.String()
}

// reason is the last message of a test that was skipped, on one line.
func reason(output []string) string {
	var message string
	for _, line := range output {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "=== ") || strings.HasPrefix(trimmed, "--- ") {
			continue
		}
		if session, ok := strings.CutPrefix(trimmed, "skip: "); ok { // of testscript
			return session
		}
		if file, rest, ok := strings.Cut(trimmed, ".go:"); ok && !strings.Contains(file, " ") {
			_, message, _ = strings.Cut(rest, ": ")
		} else {
			message += "; " + trimmed
		}
	}
	const most = 200
	if len(message) > most {
		message = strings.ToValidUTF8(message[:most], "") + " ..."
	}
	return message
}
