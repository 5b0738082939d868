package ui_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
)

// work is three turns of an agent in a repository of some thirty files, and a fork.
const work = `
set -e
mkdir -p ledger && cp -r "$SRC"/diff ledger/diff && cp -r "$SRC"/internal/budget ledger/budget && rm -rf ledger/*/testdata
cp "$SRC"/go.mod "$SRC"/LICENSE . && git init -q . && git add -A && git commit -qm begin
amberfs snapshot --turn -m "explain how hunks are computed" -q
sed -i 's/hunk/group/g' ledger/diff/hunks.go
printf '# Ledger\n\nDifferences between trees.\n' > README.md
amberfs snapshot --turn -m "name the groups of changed lines, and write a README" -q
mkdir .forks/faster-diff
sed -i '1i // The limits of the ledger.' ledger/budget/*.go
git mv ledger/budget ledger/limits
amberfs snapshot --turn -m "move the limits to their own package" -q
echo 'func TestEmpty(t *testing.T) {}' >> ledger/diff/hunks_test.go
amberfs snapshot --turn -m "add a test for empty files" -q
`

// TestPicture takes the picture of the page for the documentation, if
// AMBERFS_SCREENSHOTS names a directory.
func TestPicture(t *testing.T) {
	if os.Getenv("AMBERFS_SCREENSHOTS") == "" {
		t.Skip("AMBERFS_SCREENSHOTS names no directory")
	}
	source, err := filepath.Abs("../..")
	must(t, err)
	m := harness.New(t)
	cmd := exec.Command("bash", "-c", work)
	cmd.Dir = m.Path()
	cmd.Env = append(os.Environ(), "SRC="+source, "PATH="+filepath.Dir(harness.Binary(t))+":"+os.Getenv("PATH"),
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := open(t, m, "--write")
	b.click("#snapshots [role=option]", "move the limits")
	b.click("#snapshots [role=option]", "name the groups")
	b.click("#files [role=treeitem]", "hunks.go")
	b.wait(`document.querySelector('#diffs tr.del')`)
	// The mount point is a temporary directory, and the browser has no font with ⑂.
	b.eval(`document.querySelectorAll('header *').forEach((e) => {
		if (!e.children.length) e.textContent = e.textContent.replace(/\/\S*\/mnt$/, '~/ws').replace('⑂ ', '')
	})`, nil)
	b.screenshot("timeline")
}
