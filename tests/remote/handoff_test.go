package remote_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/await"
	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
	"github.com/amberfs/amberfs/tests/remotetest"
)

// A machine is a home directory with a store, a state and a cache of its own.
type machine struct {
	t    *testing.T
	home string
}

// run runs a command line in a directory of the machine.
func (m machine) run(dir, line string) (string, error) {
	m.t.Helper()
	must.OK(m.t, os.MkdirAll(dir, 0o755))
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+m.home, "XDG_STATE_HOME=", "XDG_CACHE_HOME=", "AMBERFS_RUNS=",
		"PATH="+filepath.Dir(harness.Binary(m.t))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m machine) must(dir, line string) string {
	m.t.Helper()
	out, err := m.run(dir, line)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// lineOf is the line in the output of a handoff, with a path.
func lineOf(t *testing.T, out, path string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if at, ok := strings.CutSuffix(strings.TrimSpace(line), " PATH"); ok {
			return at + " " + path
		}
	}
	t.Fatalf("no line: %s", out)
	return ""
}

// What is handed off is the same there, works once, and comes back.
func TestHandoff(t *testing.T) {
	everywhere(t, func(t *testing.T, url string) {
		a, b := machine{t, t.TempDir()}, machine{t, t.TempDir()}
		here, there := filepath.Join(a.home, "tree"), filepath.Join(b.home, "got")
		fill(t, here)
		line := lineOf(t, a.must(here, "amberfs handoff '"+url+"'"), there)
		want := harness.ReadTree(t, here)
		b.must(b.home, line)
		harness.CheckSameTree(t, "received", want, harness.ReadTree(t, there))
		if out, err := b.run(b.home, strings.TrimSuffix(line, there)+"again"); err == nil {
			t.Errorf("the line works twice: %s", out)
		}

		write(t, filepath.Join(there, "d3/f3"), "changed there")
		must.OK(t, os.RemoveAll(filepath.Join(there, "d5")))
		write(t, filepath.Join(here, "d4/f4"), "changed here")
		b.must(there, "amberfs handoff --back")
		a.must(here, "amberfs handoff --back")
		write(t, filepath.Join(there, "d4/f4"), "changed here")
		a.must(here, "diff -r --no-dereference . "+there)
	})
}

// A receiver that the network left goes on with the same line.
func TestHandoffCut(t *testing.T) {
	p := remotetest.NewProxy(t, s3(t))
	a, b := machine{t, t.TempDir()}, machine{t, t.TempDir()}
	here, there := filepath.Join(a.home, "tree"), filepath.Join(b.home, "got")
	fill(t, here)
	must.OK(t, os.Mkdir(filepath.Join(here, "big"), 0o755))
	for i := range 8 {
		must.OK(t, os.WriteFile(filepath.Join(here, "big", string(rune('a'+i))), remotetest.Bytes(uint64(i), 12<<20), 0o644))
	}
	line := lineOf(t, a.must(here, "amberfs handoff '"+remotetest.S3Prefix(p.URL, "cut")+"'"), there)

	ended := make(chan error, 1)
	go func() {
		_, err := b.run(b.home, line)
		ended <- err
	}()
	await.True(t, "20 MiB to be received", func() bool { return cached(b.home) >= 20<<20 })
	p.SetAway(true)
	if err := <-ended; err == nil {
		t.Fatal("it received all of it without the network")
	}
	p.SetAway(false)

	b.must(b.home, line)
	harness.CheckSameTree(t, "received", harness.ReadTree(t, here), harness.ReadTree(t, there))
}

// cached is the number of bytes that a machine has received.
func cached(home string) (n int64) {
	_ = filepath.Walk(filepath.Join(home, ".cache"), func(_ string, st os.FileInfo, err error) error {
		if err == nil && st.Mode().IsRegular() {
			n += st.Size()
		}
		return nil
	})
	return n
}
