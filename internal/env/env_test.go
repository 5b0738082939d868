package env

//go:generate go test -run TestReference -count=1 . -update

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/amberfs/amberfs/tests/must"
)

var update = flag.Bool("update", false, "write docs/reference/environment.md")

func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Environment variables\n\nGenerated from the code. The daemon reads those for remotes when it starts, so set them for `amberfs mount` and `amberfs run`.\n\n|variable|used for|\n|---|---|\n")
	for _, v := range Vars {
		b.WriteString("|`" + strings.Join(v.Names, "`, `") + "`|" + v.Purpose + "|\n")
	}
	const file = "../../docs/reference/environment.md"
	if *update {
		must.OK(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != b.String() {
		t.Errorf("%s differs from the code (%v): run go generate ./internal/env", file, err)
	}
}

// TestOneSource: no other package reads environment variables, except for those with which amberfs starts its own
// processes.
func TestOneSource(t *testing.T) {
	private := regexp.MustCompile(`os\.Getenv\((configEnv|ReadyEnv|rootEnv|linkEnv|stateEnv)\)`)
	reads := regexp.MustCompile(`os\.(Getenv|LookupEnv)\(`)
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if d.IsDir() && (rel == "tests" || rel == "internal/env" || strings.HasPrefix(d.Name(), ".") && rel != ".") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go") {
			return err
		}
		b, err := os.ReadFile(path)
		inTestsOnly := bytes.HasPrefix(b, []byte("//go:build points\n"))
		if !inTestsOnly && reads.Match(private.ReplaceAll(b, nil)) {
			t.Errorf("%s reads the environment: use package env", rel)
		}
		return err
	})
	must.OK(t, err)
}
