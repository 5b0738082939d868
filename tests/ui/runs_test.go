package ui_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestRuns looks at the runs of a directory, and applies one of them: some of it, then the rest.
func TestRuns(t *testing.T) {
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	must.OK(t, err)
	t.Setenv("AMBERFS_RUNS", filepath.Join(tmp, "runs"))
	dir, far := filepath.Join(tmp, "project"), filepath.Join(tmp, "far")
	put := func(path, content string) { t.Helper(); must.OK(t, os.WriteFile(path, []byte(content), 0o644)) }
	run := func(dir, commands string) {
		t.Helper()
		if out, err := exec.Command(harness.Binary(t), "run", "--from", dir, "--", "sh", "-c", commands).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, d := range []string{dir, far} {
		must.OK(t, os.Mkdir(d, 0o755))
		put(filepath.Join(d, "text"), textOf(60, nil))
		put(filepath.Join(d, "gone"), "gone\n")
	}
	run(dir, `sed -i -e 's/^line 5$/five/' -e 's/^line 50$/fifty/' text; rm gone; mkdir d; echo new > d/new`)
	run(far, "rm gone")
	b := openIn(t, dir, "--write")
	b.noErrors()
	has := func(path, content string) {
		t.Helper()
		harness.Eventually(t, path+" has what was applied", func() bool {
			got, _ := os.ReadFile(filepath.Join(dir, path))
			return string(got) == content
		})
	}
	says := func(words string) {
		t.Helper()
		b.wait(fmt.Sprintf(`document.querySelector('#forks').innerText.includes(%q)`, words))
	}
	missing := func(path string) {
		t.Helper()
		if _, err := os.Lstat(filepath.Join(dir, path)); !os.IsNotExist(err) {
			t.Errorf("%s: %v", path, err)
		}
	}

	t.Log("the runs of this directory, and of others")
	says("1 run of " + dir)
	says("run, kept")
	b.wait(fmt.Sprintf(`document.querySelector('#forks [aria-label="Runs of other directories"]')?.innerText.includes(%q)`, far))

	t.Log("some files, and one part of a file")
	b.click("#forks .card button", "Apply …")
	b.wait(`document.querySelector('#dialog').open`)
	b.click(`#dialog [aria-label="Parts of text"]`, "")
	b.click(`#dialog [aria-label="Apply part 2 of text"]`, "")
	b.click(`#dialog [aria-label="Apply d/new"]`, "")
	b.answer("What you untick stays as it is there", "Apply")
	b.said("Applied to " + dir)
	has("text", textOf(60, map[int]string{5: "five\n"}))
	missing("gone")
	missing("d")
	says("run, kept")

	t.Log("the rest, from the run's own view")
	b.click("#workspaces [role=tab]", "project-1")
	b.click("#actions button", "Apply to ")
	b.answer("will change", "Apply")
	has("d/new", "new\n")
	has("text", textOf(60, map[int]string{5: "five\n", 50: "fifty\n"}))
	b.click("#forks-button", "Runs")
	says("run, applied")

	t.Log("a run that is removed, and had back")
	b.menu("#forks .card button", "", "Remove the run")
	b.answer("For a day it can be had back", "Remove")
	says("1 removed run")
	b.undo("project-1 is removed")
	says("run, kept")

	t.Log("conflicts")
	run(dir, "echo theirs > d/new; sed -i 's/^line 7$/seven/' text")
	put(filepath.Join(dir, "d/new"), "ours\n")
	const apply = `[...document.querySelectorAll('#forks .card')].find((c) => c.ariaLabel === 'project-2')?.querySelector('.primary')`
	b.press(apply) // it may have been looked at before it was known for a run
	b.answer("1 path changed in "+dir+", too", "Take those of the workspace")
	b.answer("2 files of "+dir+" will change", "Apply")
	has("d/new", "theirs\n")
	has("text", textOf(60, map[int]string{5: "five\n", 7: "seven\n", 50: "fifty\n"}))

	t.Log("what is left out, too")
	put(filepath.Join(dir, ".amberignore"), "*.o\n")
	run(dir, "echo object > x.o")
	b.press(strings.Replace(apply, "project-2", "project-3", 1))
	b.answer("Left out (.amberignore, and what amberfs wrote for agents): x.o", "Also take what is left out")
	b.answer("1 file of "+dir+" will change", "Apply")
	has("x.o", "object\n")

	t.Log("a run of two directories is applied to both, and removed as one")
	beside := filepath.Join(tmp, "beside")
	must.OK(t, os.Mkdir(beside, 0o755))
	several := exec.Command(harness.Binary(t), "run", "--from", dir, "--also", beside, "--name", "both", "--", "sh", "-c", "echo 1 >two; cd "+beside+"; echo 2 >two; echo 3 >three")
	if out, err := several.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.press(strings.Replace(apply, "project-2", "both", 1))
	b.wait(`document.querySelector('#dialog').open`)
	b.click(fmt.Sprintf(`#dialog [aria-label="Apply %s/three"]`, beside), "")
	b.answer("3 files of "+dir+" will change", "Apply")
	has("two", "1\n")
	has("../beside/two", "2\n")
	missing("../beside/three")
	b.menu("#forks .card[aria-label=both] button", "", "Remove the run")
	b.answer("For a day it can be had back", "Remove")
	says("1 removed run")
	// The page can show the removed run before its second directory is removed.
	harness.Eventually(t, "both parts of the run are removed", func() bool {
		out, err := exec.Command(harness.Binary(t), "runs").Output()
		must.OK(t, err)
		return !strings.Contains(string(out), "both")
	})
}
