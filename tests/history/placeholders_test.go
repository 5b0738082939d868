package history_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// hiding is a sandbox that hides paths of the directory $1 which are not there, as those of agents do,
// and one that is there, and protects another one. It takes snapshots in it.
const hiding = `set -e
cd "$1"
mount --bind . .
cd "$1"
: > .bashrc; mkdir .vscode sub/.idea
mount --bind /dev/null .bashrc
mount -t tmpfs none .vscode
mount -t tmpfs none sub/.idea
mount --bind /dev/null hidden
mount --bind fresh fresh
echo in the sandbox > f
echo other > .vscode/other
mkdir .snapshots/inside
echo again > .snapshots/create
mkdir .forks/made
"$2" diff before --name-status > "$3"
"$2" restore before f`

// A snapshot that is taken in a sandbox, a fork that is made there, the undo point of a restore and a
// diff do not have what the sandbox made to mount something there, and have what the user made.
func TestPlaceholdersOfSandboxes(t *testing.T) {
	harness.SkipWithout(t, "unshare")
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path("sub"), 0o755))
	write(t, m.Path("hidden"), "")
	capture(t, m, "before")
	write(t, m.Path("fresh"), "")

	diff := filepath.Join(t.TempDir(), "diff")
	args := []string{"--mount", "sh", "-c", hiding, "sh", m.Dir, harness.Binary(t), diff}
	if os.Getuid() != 0 {
		args = append([]string{"--user", "--map-root-user"}, args...)
	}
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
		t.Fatalf("the sandbox: %v\n%s", err, out)
	}
	if list, err := os.ReadFile(diff); err != nil || string(list) != "A\tf\nA\tfresh\n" {
		t.Errorf("in the sandbox, the workspace differs from the snapshot in\n%s%v", list, err)
	}
	const undo = "cp-4" // the state before the restore
	placeholders := []string{".bashrc", ".vscode", "sub/.idea"}
	look := func(when string) {
		t.Helper()
		for _, of := range []string{".snapshots/inside", ".forks/made", ".forks/made/.snapshots/base", ".snapshots/" + undo} {
			for _, p := range placeholders {
				if _, err := os.Lstat(m.Path(of, p)); !os.IsNotExist(err) {
					t.Errorf("%s: %s has %s: %v", when, of, p, err)
				}
			}
			for _, p := range []string{"hidden", "fresh", "f", "sub"} {
				if _, err := os.Lstat(m.Path(of, p)); err != nil {
					t.Errorf("%s: %s lacks what is the user's: %v", when, of, err)
				}
			}
		}
	}
	look("at first")
	sealed(t, m, "inside")
	if list := m.Amberfs("diff", "before", "inside", "--name-status"); list != "A\tf\nA\tfresh\n" {
		t.Errorf("the snapshot differs from the one before in\n%s", list)
	}
	list := m.Amberfs("list", "--json")
	if n := strings.Count(list, `"files":4`); n != 2 {
		t.Errorf("%d snapshots count 4 files, want 2: %s", n, list)
	}

	for _, p := range placeholders { // a sandbox may leave them
		if _, err := os.Lstat(m.Path(p)); err != nil {
			t.Errorf("the sandbox's own files are gone: %v", err)
		}
	}
	restore(t, m, "inside")
	want := harness.ReadTree(t, m.Path(".snapshots", "inside"))
	harness.CheckSameTree(t, "restored", want, harness.ReadTree(t, m.Dir))
	m.Kill()
	m.Start()
	look("after a kill")
	harness.CheckSameTree(t, "after a kill", want, harness.ReadTree(t, m.Path(".snapshots", "inside")))
}
