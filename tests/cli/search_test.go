package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/must"
)

// TestBisectThousands searches 1,000 snapshots for the one in which a test breaks.
func TestBisectThousands(t *testing.T) {
	const first = 613
	m := harness.New(t)
	for i := range 1000 {
		write(t, m.Path("revision"), fmt.Sprint(i))
		if i%20 == 7 {
			write(t, m.Path("skip"), "")
		}
		if i == first {
			write(t, m.Path("broken"), "")
		}
		must.OK(t, os.Mkdir(m.Path(".snapshots", fmt.Sprint("r", i)), 0o755))
		_ = os.Remove(m.Path("skip"))
	}
	counter := filepath.Join(t.TempDir(), "runs")
	for _, c := range []struct {
		args, script string
		rounds       int
	}{
		{"-j 1", "test ! -e broken", 10},
		{"-j 3", "test ! -e broken", 7},
		{"-j 3", "test ! -e skip || exit 125; test ! -e broken", 0},
		// The fifth and the sixth run fail whatever they test.
		{"-j 1 --repeat 3", "echo >>" + counter + "; case $(wc -l <" + counter + ") in 5|6) exit 1;; esac; test ! -e broken", 0},
	} {
		args := slices.Concat([]string{"bisect", "r0", "r999", "--json"}, strings.Fields(c.args), []string{"--", "sh", "-c", c.script})
		out := m.Amberfs(args...)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		var got struct {
			FirstBad struct{ Name string } `json:"first_bad"`
			Rounds   int
			Runs     int
		}
		must.OK(t, json.Unmarshal([]byte(lines[len(lines)-1]), &got))
		if got.FirstBad.Name != fmt.Sprint("r", first) || c.rounds > 0 && got.Rounds > c.rounds {
			t.Errorf("%s: %+v\n%s", c.args, got, out)
		}
		t.Logf("%s: %d rounds, %d runs", c.args, got.Rounds, got.Runs)
	}
	wantNothingLeft(t, m, "never-ends")
}

// TestSearchLeavesNothing ends bisect and explore while their programs run.
func TestSearchLeavesNothing(t *testing.T) {
	m := harness.New(t)
	must.OK(t, os.Mkdir(m.Path(".snapshots/v1"), 0o755))
	write(t, m.Path("f"), "x")
	must.OK(t, os.Mkdir(m.Path(".snapshots/v2"), 0o755))
	// A program with a child that left its session.
	never := filepath.Join(t.TempDir(), "never-ends")
	write(t, never, "#!/bin/sh\ntrap '' TERM INT\nsetsid sh -c 'while :; do sleep 1; done' "+never+" &\nwhile :; do sleep 1; done\n")
	must.OK(t, os.Chmod(never, 0o755))
	for _, signal := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		for _, args := range [][]string{
			{"bisect", "v1", "--trust-ends", "-j", "2", "--", never},
			{"explore", "3", "--merge", "first", "--log", t.TempDir(), "--", never},
		} {
			cmd := exec.Command(harness.Binary(t), append([]string{"-C", m.Dir}, args...)...)
			must.OK(t, cmd.Start())
			harness.Eventually(t, "the program runs", func() bool { return len(processes(never)) >= 2 })
			must.OK(t, cmd.Process.Signal(signal))
			_ = cmd.Wait() // it was killed
			wantNothingLeft(t, m, never)
		}
	}
}

func wantNothingLeft(t *testing.T, m *harness.Mount, program string) {
	t.Helper()
	harness.Eventually(t, "forks and processes are gone", func() bool {
		forks, err := os.ReadDir(m.Path(".forks"))
		must.OK(t, err)
		return len(forks) == 0 && len(processes(program)) == 0
	})
}

// processes lists those with a word in their command line.
func processes(word string) (out []string) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well-formed
	for _, name := range all {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), word) {
			out = append(out, name)
		}
	}
	return out
}
