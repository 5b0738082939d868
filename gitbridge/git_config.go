package gitbridge

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/internal/scratch"
	"github.com/amberfs/amberfs/snapshot/threeway"
)

// MergeConfigs returns a merger of texts. It merges the configurations of git directories setting by setting,
// and other texts with mergeLines. A setting that both sides changed keeps the value of ours, so configurations
// are never in conflict. The settings that only theirs changed are merged by mergeLines into the text of ours.
func MergeConfigs(mergeLines threeway.Merger) threeway.Merger {
	return func(ctx context.Context, in threeway.TextInput, merged func(threeway.MergedText) error) error {
		if _, rel, ok := threeway.SplitGitPath(in.Path); ok && (path.Base(rel) == "config" || path.Base(rel) == "config.worktree") {
			if text, err := mergeConfig(ctx, in); err == nil {
				in.Base, in.Theirs = io.NewSectionReader(in.Ours, 0, in.Ours.Size()), io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text)))
			} // after an error (git cannot read a configuration, or is not installed), it is merged like other texts
		}
		return mergeLines(ctx, in, merged)
	}
}

// mergeConfig returns the configuration of ours with the settings that only theirs changed.
func mergeConfig(ctx context.Context, in threeway.TextInput) ([]byte, error) {
	temp, err := scratch.New(scratch.Merge)
	if err != nil {
		return nil, fmt.Errorf("making a temporary directory: %w", err)
	}
	defer func() { _ = temp.Remove() }() // after an error, another process removes the directory later

	var settings [3]map[string][]string // of the base, theirs and ours
	file := filepath.Join(temp.Path, "config")
	for i, from := range []*io.SectionReader{in.Base, in.Theirs, in.Ours} {
		text, err := io.ReadAll(io.NewSectionReader(from, 0, from.Size()))
		if err == nil {
			err = os.WriteFile(file, text, 0o600) // at the end of the loop, the file has the text of ours
		}
		if err != nil {
			return nil, err
		}

		out, err := runGit(ctx, "", nil, nil, "config", "--file", file, "--no-includes", "--null", "--list")
		if err != nil {
			return nil, err
		}
		settings[i] = parseSettings(string(out))
	}
	base, theirs, ours := settings[0], settings[1], settings[2]

	all := maps.Clone(base)
	maps.Copy(all, theirs)

	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Equal(base[name], theirs[name]) || !slices.Equal(base[name], ours[name]) {
			continue
		}
		var calls [][]string
		if len(ours[name]) > 0 {
			calls = append(calls, []string{"--unset-all", name})
		}
		for _, value := range theirs[name] {
			calls = append(calls, []string{"--add", name, value})
		}

		for _, args := range calls {
			if _, err := runGit(ctx, "", nil, nil, append([]string{"config", "--file", file}, args...)...); err != nil {
				return nil, err
			}
		}
	}

	return os.ReadFile(file)
}
