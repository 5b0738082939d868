package packaging_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// pinned is an action at a commit: a tag can be moved.
var pinned = regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40}$`)

type workflow struct {
	Jobs map[string]struct {
		Needs any
		Steps []struct{ Uses, Run string }
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
		if err != nil {
			t.Fatal(err)
		}
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

// TestReleaseNeedsTests: the job release runs the tests first, and every job that
// publishes waits for it.
func TestReleaseNeedsTests(t *testing.T) {
	jobs := workflows(t)["release.yml"].Jobs
	tested := -1
	for i, step := range jobs["release"].Steps {
		switch {
		case step.Run == ".ci/run":
			tested = i
		case strings.HasPrefix(step.Uses, "goreleaser/") && tested < 0:
			t.Error("the release is published before the tests run")
		}
	}
	if tested < 0 {
		t.Error("the job release runs no tests")
	}
	for name, job := range jobs {
		if name != "release" && job.Needs != "release" {
			t.Errorf("the job %s does not need the job release", name)
		}
	}
}
