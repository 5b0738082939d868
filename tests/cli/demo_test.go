package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/amberfs/amberfs/tests/harness"
	"github.com/amberfs/amberfs/tests/harness/console"
	"github.com/amberfs/amberfs/tests/must"
)

// TestDemoInterrupted ends the demo at a terminal after each of its steps: nothing of it is left.
func TestDemoInterrupted(t *testing.T) {
	for _, end := range []struct {
		step   string
		signal syscall.Signal
	}{
		{"deleted src/greet.go", syscall.SIGINT},
		{"restored snapshot before", syscall.SIGINT},
		{"snapshot before created", syscall.SIGKILL},
	} {
		t.Run(end.step, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			demo := func() *exec.Cmd {
				cmd := exec.Command(harness.Binary(t), "demo")
				cmd.Dir, cmd.Env = "/", append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
				return cmd
			}
			term, err := console.Open(demo())
			must.OK(t, err)

			text, err := term.Until(func(text string) bool { return strings.Contains(text, end.step) }, harness.Timeout)
			if err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			must.OK(t, syscall.Kill(-term.Session(), end.signal))
			harness.Eventually(t, "the demo has ended", func() bool { return len(harness.Processes(dir)) == 0 })
			term.Hangup()

			if end.signal == syscall.SIGKILL { // the next run removes what it could not
				if out, err := demo().CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			left, err := os.ReadDir(dir)
			must.OK(t, err)
			if len(left) > 0 {
				t.Errorf("%v at %q left %v", end.signal, end.step, left)
			}
		})
	}
}
