package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by release builds with -ldflags "-X main.version=…".
var version = ""

// versionText is the release, or what the build knows of its source.
func versionText() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && v == "devel" {
			v += "-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return v
}

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  args(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version string `json:"version"`
				Go      string `json:"go"`
				System  string `json:"system"`
			}{versionText(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			return a.print(v, func() { a.printf("amberfs %s (%s, %s)\n", v.Version, v.Go, v.System) })
		},
	}
}
