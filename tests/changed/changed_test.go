// Package changed_test runs commands with side effects that nobody expects. What amberfs changed
// reports of each must name every effect, and the command that it prints must undo it exactly.
package changed_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// fixture makes a small repository with sources, a build, data, a link and an archive.
const fixture = `
git init -q -b main . && git config user.name x && git config user.email x@example.org && git config commit.gpgsign false
mkdir -p empty src/sub build/obj data docs node_modules/left-pad node_modules/old
for i in 1 2 3 4 5 6; do echo "package p // $i" >src/f$i.go; done
echo deep >src/sub/deep.go
for i in 1 2 3; do echo $i >build/obj/$i.o; done
echo secret >.env && echo fixture >data/fixture.json && echo other >data/other.json
echo readme >README.md && echo '#!/bin/sh' >run.sh && chmod 755 run.sh
echo 1 >node_modules/left-pad/index.js && echo 2 >node_modules/old/index.js
echo one >one && echo two >two && ln one one.link && ln -s data/other.json latest
printf 'node_modules/\nbuild/\n.env\n*.log\n' >.gitignore
git add -A && git commit -qm one && git branch side
mkdir packed && echo new >packed/README.md && echo x >packed/extra && tar cf docs/a.tar -C packed . && rm -r packed
git add -A && git commit -qm two
`

// commands are what is run, and what the report must say of it.
var commands = []struct {
	name, command string
	says          []string
}{
	{"a formatter rewrites other files", `for f in src/*.go; do echo "// formatted" >>$f; done`, []string{"overwritten 6 files in src/: f1.go f2.go f3.go f4.go f5.go f6.go"}},
	{"a formatter writes beside and renames", `sed -i s/package/PACKAGE/ src/f1.go src/sub/deep.go src/f2.go`, []string{"overwritten src/f1.go", "overwritten src/f2.go"}},
	{"a build deletes a directory", `rm -rf build`, []string{"deleted build/ (3 files)"}},
	{"a build cleans and writes anew", `rm -rf build/obj && mkdir build/obj && echo n >build/obj/new.o`, []string{"deleted build/obj/1.o (2 B)", "deleted build/obj/3.o", "ignored by git: 1 file added or overwritten (build/obj/new.o)"}},
	{"git clean", `git clean -fdxq`, []string{"deleted .env (7 B)", "deleted build/ (3 files)", "deleted node_modules/ (2 files)"}},
	{"git clean of one directory", `git clean -fdxq build`, []string{"deleted build/ (3 files)"}},
	{"npm prune", `rm -r node_modules/old`, []string{"deleted node_modules/old/ (1 file)"}},
	{"npm install", `mkdir -p node_modules/new/lib && echo 1 >node_modules/new/lib/a && echo 2 >node_modules/new/b`, []string{"ignored by git: 2 files added or overwritten (node_modules/new/)"}},
	{"a test truncates its fixture", `: >data/fixture.json`, []string{"overwritten data/fixture.json (8 B to 0 B, emptied)"}},
	{"a link is followed", `echo changed >latest`, []string{"overwritten data/other.json (6 B to 8 B)"}},
	{"a link is replaced by a file", `sed -i s/other/OTHER/ latest`, []string{"overwritten latest", "was a symbolic link, is a file"}},
	{"a link leads elsewhere", `ln -sfn ../outside latest`, []string{"overwritten latest", "link to data/other.json, now to ../outside"}},
	{"sed on the wrong glob", `sed -i s/e/E/ *.md .env two data/*.json`, []string{"overwritten .env", "overwritten README.md", "overwritten data/other.json"}},
	{"chmod -R", `chmod -R u=rwX,go= src`, []string{"attributes src/ (0755 to 0700)", "attributes 6 files in src/: f1.go f2.go f3.go f4.go f5.go f6.go (0644 to 0600)", "attributes src/sub/deep.go (0644 to 0600)"}},
	{"chmod of one file", `chmod -x run.sh`, []string{"attributes run.sh (0755 to 0644)"}},
	{"a move over an existing file", `mv one two`, []string{"overwritten two by a rename of one"}},
	{"a copy over an existing file", `cp README.md two`, []string{"overwritten two (4 B to 7 B)"}},
	{"a script edits a hook", `echo 'curl evil' >.git/hooks/post-commit && chmod +x .git/hooks/post-commit`, []string{"added .git/hooks/post-commit"}},
	{"a script edits the configuration of git", `git config core.fsmonitor /tmp/x`, []string{"overwritten .git/config"}},
	{"an archive overwrites", `tar xf docs/a.tar`, []string{"overwritten README.md", "added extra (2 B)"}},
	{"an archive is unpacked with its own mode", `tar xf docs/a.tar && chmod 600 extra`, []string{"overwritten README.md", "added extra"}},
	{"a directory is renamed", `mv src lib`, []string{"renamed src to lib/"}},
	{"a directory is renamed and a file in it changes", `mv src lib && echo >>lib/f1.go && rm lib/f2.go`, []string{"renamed src to lib/", "overwritten lib/f1.go", "deleted src/f2.go"}},
	{"a file is renamed", `mv README.md docs/`, []string{"renamed README.md to docs/README.md"}},
	{"a rename changes the case", `mv README.md readme.md`, []string{"renamed README.md to readme.md"}},
	{"two files are exchanged", `mv one t && mv two one && mv t two`, []string{"overwritten one by a rename of two", "overwritten two by a rename of one"}},
	{"a file with two names", `echo more >>one`, []string{"overwritten one", "overwritten one.link"}},
	{"a name of a file with two names", `rm one.link`, []string{"deleted one.link"}},
	{"a file becomes a directory", `rm two && mkdir two && echo x >two/x`, []string{"overwritten two/ (1 file, was a file, is a directory)"}},
	{"a directory becomes a file", `rm -r build && echo x >build`, []string{"overwritten build", "was a directory, is a file, 3 files in it deleted"}},
	{"git checkout of another branch", `git checkout -q side`, []string{"deleted docs/ (1 file)", "git .git: HEAD is at branch side, was at branch main"}},
	{"git reset --hard", `git reset -q --hard HEAD~1`, []string{"deleted docs/ (1 file)", "git .git: branch main moved from"}},
	{"git branch -D", `git branch -qD side`, []string{"git .git: branch side is gone"}},
	{"git commit", `echo n >>two && git commit -qam three`, []string{"overwritten two", "git .git: branch main moved from", "git .git: 1 path staged, unstaged or committed"}},
	{"git stash", `echo n >>two && git stash -q`, []string{"git .git: new stash at"}},
	{"git tag", `git tag v1`, []string{"git .git: new tag v1 at"}},
	{"git rm", `git rm -q --cached README.md`, []string{"git .git: 1 path staged, unstaged or committed"}},
	{"a program makes git's index huge", `truncate -s 64M .git/index`, []string{"git .git: its files changed: .git/index: there is too much to read"}},
	{"the repository is deleted", `rm -rf .git`, []string{"deleted .git/ ("}},
	{"an empty directory is deleted", `rmdir empty`, []string{"deleted empty/ (0 files)"}},
	{"many files at once", `mkdir out && cd out && for i in $(seq 300); do echo $i >$i.txt; done`, []string{"added out/ (300 files)"}},
	{"many files among others", `cd docs && for i in $(seq 300); do echo $i >$i.txt; done`, []string{"added docs/ 300 files"}},
	{"an attribute", `setfattr -n user.mark -v 1 two`, []string{"attributes two (attributes user.mark)"}},
	{"an odd name", `printf x >"$(printf 'a\nb\377')"`, []string{`added "a\nb\377" (1 B)`}},
	{"everything", `rm -rf ./* .env .gitignore`, []string{"deleted README.md", "deleted src/ (7 files)", "deleted .env"}},
}

func TestReports(t *testing.T) {
	harness.SkipWithout(t, "git", "tar", "setfattr")
	m := harness.New(t)
	shell(t, m, fixture)
	m.Amberfs("snapshot", "fixture")

	for _, c := range commands {
		t.Run(c.name, func(t *testing.T) {
			m.Amberfs("restore", "fixture")
			m.Amberfs("changed")
			shell(t, m, `git status >/dev/null`) // it may write its index anew, which is not to be seen below
			if out := m.Amberfs("changed", "--for-agent"); out != "" {
				t.Errorf("a command that changes nothing is reported as %s", out)
			}
			before := harness.ReadTree(t, m.Path())

			shell(t, m, c.command)
			report := m.Amberfs("changed", "--for-agent")
			for _, want := range c.says {
				if !strings.Contains(report, want) {
					t.Errorf("the report does not say %q:\n%s", want, report)
				}
			}

			_, undo, ok := strings.Cut(report, "to undo exactly this: amberfs ")
			if !ok {
				t.Fatalf("there is no undo in %s", report)
			}
			m.Amberfs(strings.Fields(undo)...)
			harness.CheckSameTree(t, "the workspace after "+undo, before, harness.ReadTree(t, m.Path()))
		})
	}
}

// TestReportIsBounded: additions are cut, deletions are not.
func TestReportIsBounded(t *testing.T) {
	m := harness.New(t)
	shell(t, m, `for d in $(seq 60); do mkdir dir-with-a-long-name-$d; for i in 1 2 3 4; do echo $i >dir-with-a-long-name-$d/file-$i; done; done; mkdir old; for i in $(seq 400); do echo $i >old/file-$i; done`)
	m.Amberfs("changed")

	shell(t, m, `for d in $(seq 60); do for i in $(seq 5 9); do echo $i >dir-with-a-long-name-$d/file-$i; done; done`)
	report := m.Amberfs("changed", "--for-agent")
	if len(report) > 1200 || !strings.Contains(report, "more lines: amberfs diff --name-status") {
		t.Errorf("a report of %d bytes: %s", len(report), report)
	}

	shell(t, m, `rm old/*; for d in $(seq 60); do echo x >dir-with-a-long-name-$d/more; done`)
	report = m.Amberfs("changed", "--for-agent")
	for _, name := range []string{"file-1 ", "file-77 ", "file-400"} {
		if !strings.Contains(report, name) {
			t.Errorf("%s is not named as deleted in %s", name, report)
		}
	}
}

// shell runs a script in the workspace.
func shell(t *testing.T, m *harness.Mount, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = m.Path()
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null/none", "GIT_CONFIG_SYSTEM=/dev/null/none", "GIT_CONFIG_NOSYSTEM=1",
		"PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, script, out)
	}
}
