package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/harness/console"
	"github.com/amberfs/amberfs/tests/must"
)

// TestTenMinutes replays what a person does in ten minutes, in a pseudo-terminal: what is typed in
// testdata/ten-minutes.txt shows what is there. AMBERFS_UPDATE_DOCS=1 records it again.
func TestTenMinutes(t *testing.T) {
	const file = "testdata/ten-minutes.txt"
	b, err := os.ReadFile(file)
	must.OK(t, err)
	text := string(b)
	p := newPerson(t)
	if !p.group { // the last part is about a second group
		text, _, _ = strings.Cut(text, "# A shared directory")
	}
	recorded := p.replay(t, text)
	if os.Getenv("AMBERFS_UPDATE_DOCS") != "" && p.group {
		must.OK(t, os.WriteFile(file, []byte(recorded), 0o644))
	}
}

// A person is an ordinary user with a home directory.
type person struct {
	home  string
	group bool // there is a second group
	env   []string
	as    []string // runs a command as the user
}

const (
	userID      = "1000"
	secondGroup = "44"
)

func newPerson(t *testing.T) *person {
	home, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	p := &person{home: home}
	p.env = append(environment(t, home), "PS1=$ ", "TERM=dumb", "PAGER=cat", "AMBERFS_PAGER=cat", "HISTFILE=",
		"PATH="+filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	group := secondGroup
	if os.Getuid() == 0 {
		p.as = []string{"setpriv", "--reuid", userID, "--regid", userID, "--groups", userID + "," + group}
		p.group = true
	} else if all, err := os.Getgroups(); err == nil {
		for _, g := range all {
			if g != os.Getgid() {
				group, p.group = strconv.Itoa(g), true
			}
		}
	}
	setup := "set -e; mkdir bin; cp " + harness.Binary(t) + " bin\n" + persons
	if os.Getuid() == 0 {
		setup += "chmod 755 . ..; chmod 666 /dev/fuse; chown -R " + userID + ":" + userID + " .\n"
	}
	if p.group {
		setup += "mkdir team; chgrp " + group + " team; chmod 2775 team; echo ours >team/notes; chgrp " + group + " team/notes; chmod 664 team/notes\n"
	}
	cmd := exec.Command("bash", "-c", setup)
	cmd.Dir, cmd.Env = home, p.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// persons is what the person has.
const persons = `
mkdir -p project/src tmp py
cd project
printf 'package main\n\nfunc main() { println("hello") }\n' >src/main.go
printf 'one\ntwo\n' >notes.txt
printf 'test:\n\ttrue\n' >Makefile
printf '#!/bin/sh\nsed -i s/hello/bye/ src/main.go\necho "// tests" >src/main_test.go\ngit add -A\ngit commit -qm "main: say bye"\nrm Makefile\n' >agent
printf '#!/bin/sh\necho "by the agent" >report.txt\necho working; read line\n' >slow-agent
chmod +x agent slow-agent
git init -q -b main && git add -A && git commit -qm begin
cd ..
PATH=/usr/bin:$PATH python3 -m venv --without-pip py/.venv
`

// open opens a terminal with a shell.
func (p *person) open(t *testing.T) *console.Terminal {
	argv := append(p.as, "bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = p.home, p.env
	term, err := console.Open(cmd)
	must.OK(t, err)
	return term
}

// replay types what is typed in a text, compares what is shown with it, and returns the text with what
// was shown.
func (p *person) replay(t *testing.T, text string) string {
	term := p.open(t)
	defer func() { term.Hangup() }()
	update, lines := os.Getenv("AMBERFS_UPDATE_DOCS") != "", strings.Split(text, "\n")
	var out strings.Builder
	at := 0 // of lines
	for _, s := range console.Dialogue(text) {
		got, err := term.Until(func(text string) bool { return s.Reached(p.tidy(text)) }, harness.Timeout)
		got = p.tidy(got)
		if err != nil || !update && !console.Matches(s.Want, got) {
			t.Fatalf("line %d: %v: the terminal shows\n%s\nand not\n%s\nafter\n%s", s.Line, err, got, s.Want, out.String())
		}
		if console.Matches(s.Want, got) {
			got = s.Want
		}
		shell := strings.HasSuffix(got, "$ ")
		out.WriteString(strings.TrimSuffix(got, "$ "))
		for ; at < s.Line-1; at++ { // notes
			if l := lines[at]; l == "" || strings.HasPrefix(l, "#") {
				out.WriteString(l + "\n")
			}
		}
		at = s.Line
		switch {
		case s.Hangup:
			out.WriteString("«hangup»\n")
			term.Hangup()
			p.alone(t, term.Session())
			term = p.open(t)
		case s.Typed != "" || !shell:
			if err := term.Type(s.Typed, harness.Timeout); err != nil {
				t.Fatalf("line %d: it is typed: %v", s.Line, err)
			}
			if shell {
				out.WriteString("$ " + s.Typed + "\n")
			} else {
				out.WriteString("«" + s.Typed + "»\n")
			}
		}
	}
	return out.String()
}

func (p *person) tidy(text string) string {
	return tidy.ReplaceAllStringFunc(strings.ReplaceAll(text, p.home, "/home/me"), func(s string) string {
		return strings.Repeat(" ", len(s)) // a prompt ends with a blank
	})
}

// alone waits until no process of a session is left.
func (p *person) alone(t *testing.T, session int) {
	t.Helper()
	harness.Eventually(t, "the terminal's programs have ended", func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		for _, f := range all {
			b, _ := os.ReadFile(f) // it may have ended
			fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
			if len(fields) > 3 && string(fields[3]) == fmt.Sprint(session) {
				return false
			}
		}
		return err == nil
	})
}
