package extremes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// A command is what an operation is part of that needs a client. $D is a directory.
type command struct{ ops, line string }

var commands = []command{
	{"add-remote", "remote add r file://$D/remote"},
	{"push objects", "push r first second"},
	{"trust-remote", "remote trust r"},
	{"remote-snapshots", "remote snapshots r"},
	{"verify-remote", "remote verify r --deep"},
	{"pull", "pull r second --as pulled"},
	{"remove-pushed", "remote rm r first"},
	{"gc-remote", "remote gc r"},
	{"remove-remote", "remote remove r"},
	{"open exported", "export second --git $D/repo"},
	{"import", "import --git $D/repo refs/sandbox/snapshots/second of-git"},
	{"tar", "export second --tar $D/second.tar"},
	{"import", "import --tar $D/second.tar of-tar"},
	{"layer image", "export second --image oci:$D/image:second"},
	{"import", "import --image oci:$D/image:second of-image"},
	{"import", "import $D/from of-directory"},
	{"open-changes", "apply $D/from second --yes --ours"},
}

// ofDirectory are those in a store that is filled from $D/from, which changes then.
var ofDirectory = []command{{"refresh", "refresh --dry-run"}, {"refresh", "refresh"}, {"open-changes", "apply --yes"}}

// ofRuns are those of runs of $D/from.
var ofRuns = []command{
	{"open-changes", "run --from $D/from --name r -- sh -c 'echo run >>line; rm -f newlines'"}, {"changes", "runs diff r"}, {"", "runs --all"},
	{"refresh", "run --resume r -- true"}, {"open-changes", "apply --run r --yes"}, {"", "runs rm r --yes"},
}

// run runs commands. Those that are refused are so with a sentence.
func (w *world) run(dir string, all []command) {
	for _, c := range all {
		line := strings.ReplaceAll(c.line, "$D", dir)
		w.within("amberfs "+line, func() {
			ctx, cancel := context.WithTimeout(w.t.Context(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, "sh", "-c", `"$0" -C "$1" `+line, harness.Binary(w.t), w.Dir)
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == 2:
				w.t.Errorf("amberfs %s is no command: %s", line, out)
			case err != nil && (ctx.Err() != nil || len(out) == 0 || bytes.Contains(out, []byte("goroutine "))):
				w.t.Errorf("amberfs %s: %v: %s", line, err, out)
			case err != nil:
				w.t.Logf("amberfs %s: %s", line, out)
			}
		})
	}
}

// directory makes inputs outside of the mount, or changes them.
func (w *world) directory(dir string, second bool) {
	must.OK(w.t, os.MkdirAll(dir, 0o755))
	for name, piece := range map[string]string{"newlines": "\n", "line": "x"} {
		text := strings.Repeat(piece, harness.Count(w.t, "BYTES", 1_000_000, 40_000_000))
		if second {
			text = "second\n" + text
		}
		must.OK(w.t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	f, err := os.Create(filepath.Join(dir, "holes"))
	must.OK(w.t, err)
	_, err = f.WriteAt([]byte(fmt.Sprint(second)), int64(harness.Count(w.t, "HOLE", 1<<30, 1<<36)))
	must.OK(w.t, errors.Join(err, f.Close()))
	must.OK(w.t, os.MkdirAll(filepath.Join(dir, "names"), 0o755))
	for i := range harness.Count(w.t, "NAMES", 150, 100_000) {
		must.OK(w.t, os.WriteFile(filepath.Join(dir, "names", fmt.Sprintf("%0100d", i)), []byte(fmt.Sprint(second)), 0o644))
	}
}

// TestExtremesOfDirectories fills a store from a directory, and runs in one.
func TestExtremesOfDirectories(t *testing.T) {
	harness.SkipWithout(t, "git")
	dir := t.TempDir()
	t.Setenv("AMBERFS_RUNS", filepath.Join(dir, "runs"))
	w := newWorld(t, "--from", filepath.Join(dir, "from"))
	w.directory(filepath.Join(dir, "from"), true)
	w.run(dir, ofRuns)
	w.run(dir, ofDirectory)
}
