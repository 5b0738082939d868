// Package watchers_test lets the watchers of editors and build tools watch a workspace: they
// must notice a restore.
package watchers_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// heard is what a watcher has printed.
type heard struct {
	mu    sync.Mutex
	lines []string
}

func (h *heard) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		h.mu.Lock()
		h.lines = append(h.lines, s.Text())
		h.mu.Unlock()
	}
}

// missing are those of the lines that did not come.
func (h *heard) missing(want []string) (missing []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range want {
		if !slices.Contains(h.lines, w) {
			missing = append(missing, w)
		}
	}
	return missing
}

func (h *heard) wait(t *testing.T, what string, want ...string) {
	t.Helper()
	defer func() {
		if m := h.missing(want); len(m) > 0 {
			t.Errorf("%s: not heard: %q; heard: %q", what, m, h.lines)
		}
	}()
	harness.Eventually(t, what, func() bool { return len(h.missing(want)) == 0 })
}

// start starts a watcher of a directory, whose input is to be closed.
func start(t *testing.T, cmd *exec.Cmd) (*heard, io.Closer) {
	t.Helper()
	in, err := cmd.StdinPipe()
	must.OK(t, err)
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	cmd.Stderr = cmd.Stdout
	must.OK(t, cmd.Start())
	h := &heard{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		h.read(out)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	return h, in
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// before and after are two states, and came and went what is only in one.
const (
	before = "mkdir -p old/deep/er same; echo 1 > old/deep/er/f; echo 1 > old/g; echo 1 > changed; echo 1 > gone; ln -s changed link"
	after  = "rm -r old; rm link gone; echo two > changed; echo n > new; mkdir -p fresh/below; echo n > fresh/below/f"
)

var (
	olds = []string{"old", "old/deep", "old/deep/er", "old/deep/er/f", "old/g", "gone", "link"}
	news = []string{"new", "fresh", "fresh/below", "fresh/below/f"}
)

func lines(what string, paths ...string) (out []string) {
	for _, p := range paths {
		out = append(out, what+" "+p)
	}
	return out
}

// @parcel/watcher is what VS Code has. It believes the event alone, and hears of
// modifications. chokidar looks into what changed.
func TestNode(t *testing.T) {
	dir := harness.InstallNPM(t, "watchers", "package.json", "watch.mjs")
	for kind, want := range map[string]struct{ restored, undone []string }{
		"parcel": {lines("update", "", "changed", "gone", "link", "old"), lines("update", "", "changed", "new", "fresh")},
		"chokidar": {
			slices.Concat(lines("create", olds...), lines("delete", news...), lines("update", "changed")),
			slices.Concat(lines("create", news...), lines("delete", olds...), lines("update", "changed")),
		},
	} {
		t.Run(kind, func(t *testing.T) {
			m := harness.New(t)
			shell(t, m.Dir, before+"; mkdir .snapshots/v1; "+after)
			cmd := exec.Command("node", "watch.mjs", kind, m.Dir)
			cmd.Dir = dir
			h, in := start(t, cmd)
			h.wait(t, "it watches", "ready")
			shell(t, m.Dir, "mv .snapshots/restore .snapshots/restore@v1")
			h.wait(t, "a restore", want.restored...)
			h.mu.Lock()
			h.lines = nil
			h.mu.Unlock()
			shell(t, m.Dir, "mv .snapshots/restore .snapshots/restore@undo")
			h.wait(t, "its undoing", want.undone...)
			must.OK(t, in.Close())
			h.wait(t, "the end of watching", "ended")
		})
	}
}

func TestInotifywait(t *testing.T) {
	harness.SkipWithout(t, "inotifywait")
	m := harness.New(t)
	shell(t, m.Dir, before+"; mkdir .snapshots/v1; "+after)
	cmd := exec.Command("inotifywait", "-m", "-r", "--format", "%e %w%f", ".")
	cmd.Dir = m.Dir
	h, _ := start(t, cmd)
	h.wait(t, "it watches", "Watches established.")
	shell(t, m.Dir, "mv .snapshots/restore .snapshots/restore@v1")
	h.wait(t, "a restore", "MODIFY,ISDIR ./", "MODIFY,ISDIR ./old", "MODIFY ./gone", "MODIFY ./link", "MODIFY ./changed")
}
