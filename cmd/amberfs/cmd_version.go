package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version, commit and date are set by builds from a checkout, with -ldflags "-X main.version=… -X main.commit=…
// -X main.date=…". A build by `go install` has the commit in its module version.
var version, commit, date string

type buildInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Date    string `json:"date,omitempty"` // the date of the commit, RFC 3339
	Go      string `json:"go"`
	System  string `json:"system"`
}

// versionText returns the version that was set with -ldflags. Without one, it returns the version of the module,
// which may be "devel".
func versionText() string { return thisBuild().Version }

func thisBuild() buildInfo {
	info, _ := debug.ReadBuildInfo() // fails only for a program that is not built as a module
	b := readBuildInfo(info)
	b.Version = cmp.Or(version, b.Version)
	if commit != "" {
		b.Commit, b.Date = commit, date
	}

	return b
}

func readBuildInfo(info *debug.BuildInfo) buildInfo {
	b := buildInfo{
		Version: info.Main.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}

	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		}
	}

	return b
}

// sourceText returns the commit and its date as text, "" if the version is a tag.
func (b buildInfo) sourceText() string {
	if b.Commit == "" {
		return ""
	}
	return "commit " + b.Commit[:min(12, len(b.Commit))] + " of " + b.Date + ", "
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  amberfs version --json`,
		Args:    argumentCountCheck(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.print(b, func() { a.printf("amberfs %s (%s%s, %s)\n", b.Version, b.sourceText(), b.Go, b.System) })
		},
	}
}
