package main

import (
	"runtime/debug"
	"testing"
)

// TestBuild: the version, commit and date of a build depend on how it was built.
func TestBuild(t *testing.T) {
	const revision = "03354f8b0c0ffee00000000000000000000000aa"
	for _, c := range []struct {
		name                string
		info                debug.BuildInfo
		version, commit, at string
		source              string
	}{
		{"go install of a tag", debug.BuildInfo{Main: debug.Module{Version: "v0.1.0"}},
			"v0.1.0", "", "", ""},
		{"go install of a commit", debug.BuildInfo{Main: debug.Module{Version: "v0.0.0-20261122095800-03354f8b0c0f"}},
			"v0.0.0-20261122095800-03354f8b0c0f", "", "", ""},
		{"go build in a checkout", debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: revision}, {Key: "vcs.time", Value: "2026-11-22T09:58:00Z"}}},
			"devel", revision, "2026-11-22T09:58:00Z", "commit 03354f8b0c0f of 2026-11-22T09:58:00Z, "},
		{"go build without git", debug.BuildInfo{}, "devel", "", "", ""},
	} {
		b := readBuildInfo(&c.info)
		if b.Version != c.version || b.Commit != c.commit || b.Date != c.at || b.sourceText() != c.source {
			t.Errorf("%s: %+v, %s", c.name, b, b.sourceText())
		}
	}
}
