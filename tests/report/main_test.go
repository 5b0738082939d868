package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

const events = `{"Action":"start","Package":"github.com/amberfs/amberfs/a"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestGood","Output":"    a_test.go:1: a word\n"}
{"Action":"pass","Package":"github.com/amberfs/amberfs/a","Test":"TestGood"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestBad","Output":"=== RUN   TestBad\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestBad","Output":"    a_test.go:2: a mistake\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"github.com/amberfs/amberfs/a","Test":"TestBad"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot/x","Output":"    a_test.go:3: a log\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot/x","Output":"    a_test.go:4: needs root\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot/x","Output":"        as others\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot/x","Output":"--- SKIP: TestRoot/x (0.00s)\n"}
{"Action":"skip","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot/x"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Test":"TestKilled","Output":"panic: oh\n"}
{"Action":"output","Package":"github.com/amberfs/amberfs/a","Output":"FAIL\tgithub.com/amberfs/amberfs/a\t0.1s\n"}
{"Action":"fail","Package":"github.com/amberfs/amberfs/a"}
{"Action":"output","Package":"github.com/amberfs/amberfs/b","Output":"PASS\n"}
{"Action":"pass","Package":"github.com/amberfs/amberfs/b","Elapsed":2.5}
go: a message of its own
`

// TestPrinted: of tests only those are printed that failed or did not end.
func TestPrinted(t *testing.T) {
	var out, results bytes.Buffer
	must.OK(t, printed(strings.NewReader(events), &out, &results))
	want := `    a_test.go:2: a mistake
--- FAIL: TestBad (0.00s)
FAIL	github.com/amberfs/amberfs/a	0.1s
panic: oh
ok  	github.com/amberfs/amberfs/b	2.500s
go: a message of its own
`
	if out.String() != want {
		t.Errorf("it prints\n%s", out.String())
	}
	if !strings.Contains(results.String(), `"Test":"TestBad","Output":"  a_test.go:2: a mistake\n"`) {
		t.Errorf("results:\n%s", results.String())
	}
	if !strings.Contains(results.String(), `"Test":"TestRoot/x","Output":"needs root; as others"`) {
		t.Errorf("results:\n%s", results.String())
	}
}

// TestSkips: what one run skips and another passes was not skipped; what is of another
// target is counted; the list decides about the rest.
func TestSkips(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	write := func(lines string) {
		t.Helper()
		must.OK(t, os.WriteFile(file, []byte(lines), 0o600))
	}
	summarize := func() (string, error) {
		t.Helper()
		skipped, failed, err := results([]string{file})
		must.OK(t, err)
		var out strings.Builder
		err = summary(&out, skipped, failed, true)
		return out.String(), err
	}
	allowed := `{"Action":"skip","Package":"github.com/amberfs/amberfs/tests/powercut","Test":"TestPowerCut","Output":"an old kernel"}
{"Action":"skip","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot","Output":"needs root"}
{"Action":"pass","Package":"github.com/amberfs/amberfs/a","Test":"TestRoot"}
{"Action":"skip","Package":"github.com/amberfs/amberfs/a","Test":"TestS3","Output":"make test-remote runs it"}
`
	write(allowed)
	out, err := summarize()
	want := `
1 tests were skipped
skipped: tests/powercut TestPowerCut: an old kernel
1 other tests run in make test-remote
`
	if err != nil || out != want {
		t.Errorf("%v: it prints\n%s", err, out)
	}
	write(allowed + `{"Action":"fail","Package":"github.com/amberfs/amberfs/a","Test":"TestBad","Output":"  a_test.go:2: a mistake\n"}` + "\n")
	if out, _ := summarize(); out != want+"failed: a TestBad\n  a_test.go:2: a mistake\n" {
		t.Errorf("it prints\n%s", out)
	}
	write(allowed + `{"Action":"skip","Package":"github.com/amberfs/amberfs/a","Test":"TestPodman","Output":"podman is not installed"}` + "\n")
	if out, err := summarize(); err == nil || !strings.Contains(out, "skipped: a TestPodman: podman is not installed\n") {
		t.Errorf("%v: it prints\n%s", err, out)
	}
}
