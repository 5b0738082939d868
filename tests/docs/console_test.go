package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/harness/console"
	"github.com/amberfs/amberfs/tests/must"
)

// TestSessions executes the commands of the pages and compares what they print with the
// pages. AMBERFS_UPDATE_DOCS=1 writes the output into the pages.
func TestSessions(t *testing.T) {
	for _, name := range []string{
		"docs/tutorials/first-undo.md", "docs/tutorials/agent.md", "docs/how-to/sandbox.md", "docs/how-to/runs.md", "docs/how-to/workspace.md",
		"docs/how-to/parallel.md", "docs/how-to/who-changed-what.md", "docs/how-to/search.md", "docs/how-to/back-up.md", "docs/how-to/page.md",
	} {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(root, name)
			page, err := os.ReadFile(file)
			must.OK(t, err)
			commands := console.Commands(string(page))
			if len(commands) == 0 {
				t.Fatal("the page has no commands to run")
			}
			printed := perform(t, name, commands, console.Matches)
			if os.Getenv("AMBERFS_UPDATE_DOCS") == "" || t.Failed() {
				return
			}
			must.OK(t, os.WriteFile(file, []byte(console.Update(string(page), commands, printed, console.Matches)), 0o644))
		})
	}
}

// TestPicture: the pictures of terminals in the README show what is printed, apart from
// numbers, which depend on the machine. `make session` records them again.
func TestPicture(t *testing.T) {
	for _, name := range []string{"demo", "session-run"} {
		t.Run(name, func(t *testing.T) { picture(t, name) })
	}
}

func picture(t *testing.T, name string) {
	text, picture := filepath.Join(root, "docs", name+".txt"), filepath.Join(root, "docs", name+".svg")
	b, err := os.ReadFile(text)
	must.OK(t, err)
	session := string(b)
	if os.Getenv("AMBERFS_TEST_PACKAGES") != "" {
		commands := console.Session(session)
		if name == "demo" {
			commands = console.Alone(session) // which prints commands
		}
		printed := perform(t, text, commands, console.MatchesForm)
		if os.Getenv("AMBERFS_UPDATE_DOCS") != "" && !t.Failed() {
			session = console.Update(session, commands, printed, func(string, string) bool { return false })
		}
	}
	svg := console.SVG(session, "A terminal session with amberfs; its text is docs/"+name+".txt")
	if os.Getenv("AMBERFS_UPDATE_DOCS") != "" && !t.Failed() {
		for file, content := range map[string]string{text: session, picture: svg} {
			must.OK(t, os.WriteFile(file, []byte(content), 0o644))
		}
	}
	if b, err := os.ReadFile(picture); err != nil || string(b) != svg {
		t.Errorf("%s is not %s: make session (%v)", picture, text, err)
	}
}

// perform runs commands in a home directory with a project and this repository's
// examples, and with amberfs installed.
func perform(t *testing.T, name string, commands []console.Command, match console.Match) []string {
	home := t.TempDir()
	t.Cleanup(func() { unmount(t, home) })
	shell, err := console.Start(home, environment(t, home))
	must.OK(t, err)
	defer shell.Close()
	examples, err := filepath.Abs(filepath.Join(root, "examples"))
	must.OK(t, err)
	if out, status, err := shell.Run("set -e; EXAMPLES="+examples+"\n"+project+"set +e", harness.Timeout); err != nil || status != 0 {
		t.Fatalf("making the project: %v, status %d\n%s", err, status, out)
	}
	update := os.Getenv("AMBERFS_UPDATE_DOCS") != ""
	var all []string
	for _, c := range commands {
		out, status, err := shell.Run(c.Text, harness.Timeout)
		if err != nil {
			t.Fatalf("%s: %s: %v\n%s", name, c.Text, err, out)
		}
		out = tidy.ReplaceAllString(strings.ReplaceAll(out, home, "/home/me"), "")
		all = append(all, out)
		switch {
		case !c.Told && status != 0:
			t.Errorf("%s: %s: status %d\n%s", name, c.Text, status, out)
		case c.Told && !update && !match(c.Want, out):
			t.Errorf("%s: %s\nprints\n%s\nand not\n%s", name, c.Text, out, c.Want)
		}
	}
	return all
}

// tidy is what a page leaves out: where bash is in its input, spaces at the end.
var tidy = regexp.MustCompile(`(?m)line \d+: |[ \t]+$`)

// project is what ~/project has.
const project = `
mkdir -p project/src project/node_modules/left-pad ws tmp
cd project
printf 'package main\n\nfunc main() { println("hello") }\n' >src/main.go
printf 'package main\n\nfunc parse(s string) string { return s }\n' >src/parse.go
printf 'test:\n\t@test -s src/main.go && echo ok\n' >Makefile
printf '{"name": "project"}\n' >package.json
printf '#!/bin/sh\nsed -i s/hello/bye/ src/main.go\necho "// tests" >src/parse_test.go\n' >agent
chmod +x agent
echo node_modules >.gitignore
echo '{}' >node_modules/left-pad/package.json
git init -q -b main && git add -A && git commit -qm begin
cd ..
ln -s "$EXAMPLES" examples
`

func environment(t *testing.T, home string) []string {
	return append(os.Environ(), "MAKELEVEL=0", "MAKEFLAGS=", "MFLAGS=", "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "TMPDIR="+filepath.Join(home, "tmp"), "LC_ALL=C.UTF-8", "TZ=UTC", "TIMEFORMAT=real %3Rs",
		"PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"),
		"GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
}

func unmount(t *testing.T, dir string) {
	for _, point := range harness.Mounts(dir) {
		if out, err := exec.Command(harness.Binary(t), "umount", "--lazy", point).CombinedOutput(); err != nil {
			t.Errorf("unmounting %s: %v\n%s", point, err, out)
		}
	}
}
