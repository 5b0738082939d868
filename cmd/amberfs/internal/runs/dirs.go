// Package runs finds the runs of directories. For each directory there is one store, and each
// run is a fork in it. The snapshots that `amberfs run` takes in the fork have its state
// (service.Run).
package runs

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/internal/env"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// Root is the directory of all stores of runs.
func Root() (string, error) {
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

// Store is the store of a directory in root. A directory in a mount of amberfs has another
// one than the directory that the mount hides.
func Store(root string, mounts []locate.Mount, dir string) string {
	key := dir
	if m, ok := locate.At(mounts, dir); ok && m.FSType == locate.FSType {
		key += "\x00" + m.Source + "\x00" + m.Root
	}
	sum := sha256.Sum256([]byte(key))
	return filepath.Join(root, fmt.Sprintf("%s-%x", Base(dir), sum[:4]))
}

// Dir is the directory of a store; false if it is no store of runs.
func Dir(store string) (dir string, ok bool) {
	root, err := Root()
	if err != nil || filepath.Dir(store) != root {
		return "", false
	}
	dir, err = storedir.FilledFrom(store)
	return dir, err == nil && dir != ""
}

// Stores are the stores in root.
func Stores(root string) (out []string, err error) {
	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}

	for _, e := range entries {
		if store := filepath.Join(root, e.Name()); e.IsDir() {
			if _, ok := Dir(store); ok {
				out = append(out, store)
			}
		}
	}

	return out, err
}

var other = regexp.MustCompile(`[^A-Za-z0-9_-]+`)

// Base is what the names of runs of a directory begin with.
func Base(dir string) string {
	name := strings.Trim(other.ReplaceAllString(filepath.Base(dir), "-"), "-")
	if name == "" {
		return "run"
	}
	return name[:min(len(name), 60)]
}

// Next is a name for a run of a directory that is none of names.
func Next(dir string, names []string) string {
	highest := 0
	for _, name := range names {
		if digits, ok := strings.CutPrefix(name, Base(dir)+"-"); ok {
			if n, err := strconv.Atoi(digits); err == nil {
				highest = max(highest, n)
			}
		}
	}

	name := fmt.Sprintf("%s-%d", Base(dir), highest+1)
	if naming.Check(name) != nil || slices.Contains(names, name) {
		return "run-" + name
	}

	return name
}
