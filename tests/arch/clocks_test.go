package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

// mayUseClocks are the tests, and what they are built on, that use the clock, and for what.
// All others wait for events, and count: see packages await and harness. What is measured is
// in tests/bench.
var mayUseClocks = map[string]string{
	"tests/await/await.go":                              "gives up on what hangs",
	"tests/harness/mount.go":                            "gives up on what hangs",
	"tests/extremes/world_test.go":                      "gives up on what hangs",
	"tests/harness/console/shell.go":                    "gives up on what hangs",
	"tests/harness/console/terminal.go":                 "gives up on what hangs",
	"tests/remotetest/servers.go":                       "gives up on what hangs",
	"tests/remotetest/proxy.go":                         "delays requests",
	"tests/crash/crash_test.go":                         "kills at a random moment",
	"tests/crash/forget_test.go":                        "kills at a random moment",
	"tests/crash/historian_test.go":                     "kills at a random moment",
	"tests/crash/run_test.go":                           "kills at a random moment",
	"tests/crash/whiteout_test.go":                      "kills at a random moment",
	"tests/alike/person_test.go":                        "writes at a random moment",
	"tests/survive/control_test.go":                     "kills at several moments",
	"tests/fulldisk/rounds_test.go":                     "kills at a random moment",
	"tests/powercut/powercut_test.go":                   "cuts the power at a random moment",
	"tests/remote/remote_test.go":                       "kills at a random moment",
	"fusefs/readers_test.go":                            "ends readers at a random moment",
	"tests/hostile/bombs_test.go":                       "samples the memory of a process",
	"tests/hostile/everything_test.go":                  "logs the longest wait of main",
	"service/internal/importer/builder_hostile_test.go": "samples the memory of a process",
	"tests/hostile/rendering_test.go":                   "asks at a pace",
	"tests/model/linear_test.go":                        "takes snapshots at a pace",
	"tests/survive/idle_test.go":                        "counts how often a process wakes up",
}

var clock = regexp.MustCompile(`\btime\.(Since|Sleep|After)\(`)

// TestNoClocks: a test that measures time, or takes a pause for an event, fails on a busy
// machine.
func TestNoClocks(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test && folder(s.pkg) != "tests" || strings.HasPrefix(s.file, "tests/bench/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", s.file))
		must.OK(t, err)
		use := clock.Find(text)
		used[s.file] = use != nil
		if use != nil && mayUseClocks[s.file] == "" {
			t.Errorf("%s has %s): wait for what happens, or count; else say in mayUseClocks what for", s.file, use)
		}
	}
	for file := range mayUseClocks {
		if !used[file] {
			t.Errorf("%s uses no clock: it can go from mayUseClocks", file)
		}
	}
}
