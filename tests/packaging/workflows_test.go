package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/amberfs/amberfs/tests/must"
)

// pinned is an action at a commit: a tag can be moved.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)

type step struct{ Uses, Run string }

type workflow struct {
	Jobs map[string]struct {
		Needs any
		Steps []step
	}
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) < 3 {
		t.Fatalf("found %d workflows, %v", len(files), err)
	}
	out := map[string]workflow{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		must.OK(t, err)
		var w workflow
		if err := yaml.Unmarshal(b, &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out[filepath.Base(file)] = w
	}
	return out
}

func TestActionsArePinned(t *testing.T) {
	n := 0
	for file, w := range workflows(t) {
		for name, job := range w.Jobs {
			for _, step := range job.Steps {
				if step.Uses == "" {
					continue
				}
				n++
				if !pinned.MatchString(step.Uses) {
					t.Errorf("%s, job %s: %s is not pinned to a commit", file, name, step.Uses)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no workflow uses an action")
	}
}

// TestReleaseNeedsTests: the job test runs the tests, and every other job waits for it. A
// release waits for the job kernels too.
func TestReleaseNeedsTests(t *testing.T) {
	jobs := workflows(t)["release.yml"].Jobs
	if jobs["release"].Needs != "kernels" || !slices.ContainsFunc(jobs["kernels"].Steps, func(step step) bool { return strings.HasSuffix(step.Run, " make test-kernels") }) {
		t.Error("a release does not wait for the tests on other kernels")
	}
	if !slices.ContainsFunc(jobs["test"].Steps, func(step step) bool { return step.Run == ".ci/run" }) {
		t.Error("the job test runs no tests")
	}
	if !slices.ContainsFunc(jobs["test"].Steps, func(step step) bool { return strings.Contains(step.Run, "tests/formats/testdata/") }) {
		t.Error("a version is released without its store and remotes")
	}
	for name := range jobs {
		before := name
		for range jobs {
			if before != "test" {
				before, _ = jobs[before].Needs.(string)
			}
		}
		if before != "test" {
			t.Errorf("the job %s does not need the job test", name)
		}
	}
}
