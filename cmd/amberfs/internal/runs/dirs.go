// Package runs finds and applies the runs of directories. Each directory has a store, and each run is a
// fork in the store. The snapshots that `amberfs run` takes in the fork have the state of the run
// (service.Run).
package runs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// StoresDir returns the directory of all stores of runs.
func StoresDir() (string, error) {
	if dir := env.Get("AMBERFS_RUNS"); filepath.IsAbs(dir) {
		return filepath.Clean(dir), nil
	} else if dir != "" {
		return "", errs.Fail(errs.Invalid, "AMBERFS_RUNS is %q, which is not an absolute path", dir)
	}

	state, err := env.StateDir()
	if err != nil {
		return "", errs.Fail(errs.Failed, "%w", err).WithHint("name a directory in AMBERFS_RUNS")
	}

	return filepath.Join(state, "runs"), nil
}

// StorePath returns the path of the store of a directory, in root. A directory in an amberfs mount and the
// directory that the mount hides have different stores.
func StorePath(root string, mounts []locate.Mount, dir string) string {
	key := dir
	if m, ok := locate.MountOf(mounts, dir); ok && m.FSType == locate.FSType {
		key += "\x00" + m.Source + "\x00" + m.Root
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(root, fmt.Sprintf("%s-%x", NamePrefix(dir), sum[:4]))
}

// SourceDir returns the directory that a store of runs was filled from; ok is false for other stores.
func SourceDir(store string) (dir string, ok bool) {
	root, err := StoresDir()
	if err != nil || filepath.Dir(store) != root {
		return "", false
	}
	dir, err = storedir.FilledSource(store)
	return dir, err == nil && dir != ""
}

// Stores returns all stores of runs.
func Stores() (out []string, err error) {
	root, err := StoresDir()
	if err != nil {
		return nil, err
	}

	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}

	for _, e := range entries {
		if store := filepath.Join(root, e.Name()); e.IsDir() {
			if _, ok := SourceDir(store); ok {
				out = append(out, store)
			}
		}
	}

	return out, err
}

// invalidNameChars matches the characters that the name of a run cannot have.
var invalidNameChars = pattern.New(`[^A-Za-z0-9_-]+`)

// NamePrefix returns the beginning of the names of a directory's runs. In a name, a dash and a number follow.
func NamePrefix(dir string) string {
	name := strings.Trim(invalidNameChars().ReplaceAllString(filepath.Base(dir), "-"), "-")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 60)]
}

// NewName returns a name for a new run of a directory. The name is not in names.
func NewName(dir string, names []string) string {
	highest := 0
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, NamePrefix(dir)+"-"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				highest = max(highest, n)
			}
		}
	}

	name := fmt.Sprintf("%s-%d", NamePrefix(dir), highest+1)
	if naming.Check(name) != nil || slices.Contains(names, name) {
		return "run-" + name
	}

	return name
}
