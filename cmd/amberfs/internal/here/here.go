// Package here finds the runs, mounts and stores that belong to a directory outside of a mount.
package here

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

// A Directory describes a directory: the runs, mounts and stores that belong to it, and what to do next.
type Directory struct {
	Dir    string      `json:"directory"`
	Runs   []runs.Run  `json:"runs"`
	Copies []runs.Run  `json:"copies" jsonschema:"that the runs share"`
	Mounts []Mount     `json:"mounts" jsonschema:"in the directory, or of a store that was filled from it or lies in it"`
	Stores []Store     `json:"stores" jsonschema:"that lie in the directory and are not mounted"`
	Others OtherCounts `json:"elsewhere"`
	Next   []Step      `json:"next" jsonschema:"commands that come next, the most useful first"`
}

// A Mount is a mounted workspace.
type Mount struct {
	Mountpoint string `json:"mountpoint"`
	State      string `json:"state" jsonschema:"mounted, dead or hanging"`
	Store
}

// The states of a mount.
const (
	Mounted = "mounted"
	Dead    = "dead"    // its daemon has ended
	Hanging = "hanging" // its daemon does not answer
)

// A Store describes a store: its directory, the directory that it was filled from, and its size.
type Store struct {
	Path  string `json:"store"`
	From  string `json:"from,omitempty" jsonschema:"the directory that it was filled from"`
	Bytes int64  `json:"bytes"`
}

// OtherCounts has the numbers of runs and mounts that belong to other directories.
type OtherCounts struct {
	Runs   int `json:"runs"`
	Mounts int `json:"mounts"`
}

// A Step is a useful next command.
type Step struct {
	Command     string `json:"command"`
	Description string `json:"does"`
}

// Examine returns the runs, mounts and stores of the directory dir, which is an absolute path. It does not set Next.
func Examine(ctx context.Context, dir string, f *runs.Finder) (*Directory, error) {
	table, err := locate.Mounts()
	if err != nil {
		return nil, err
	}

	d := &Directory{Dir: locate.Resolve(table, dir), Mounts: []Mount{}, Stores: []Store{}}
	if err := d.findRuns(ctx, f); err != nil {
		return nil, err
	}

	d.findMounts(table)
	d.findStores()

	return d, nil
}

// findRuns finds the runs of the directory, and of the directories above it. It counts the other runs.
func (d *Directory) findRuns(ctx context.Context, f *runs.Finder) error {
	all, err := runs.Stores()
	if err != nil {
		return err
	}

	var stores []string
	for _, store := range all {
		if source, _ := runs.SourceDir(store); naming.IsUnder(d.Dir, source) {
			stores = append(stores, store)
		} else {
			d.Others.Runs += len(runs.RunNames(store))
		}
	}

	d.Runs, d.Copies, err = f.ListAndPrune(ctx, stores)
	d.Runs = slices.DeleteFunc(d.Runs, func(r runs.Run) bool { return r.State == service.RunRemoved })

	return err
}

// findMounts finds the mounts that belong to the directory, and counts the other mounts. It ignores bind mounts of a
// part of a workspace.
func (d *Directory) findMounts(table []locate.Mount) {
	for _, m := range table {
		if m.FSType != locate.FSType || m.Root != "/" || !locate.IsTrusted(m) {
			continue
		}

		s := storeAt(m.Source)
		if !naming.IsUnder(m.Mountpoint, d.Dir) && !naming.IsUnder(s.Path, d.Dir) && (s.From == "" || !naming.IsUnder(d.Dir, s.From)) {
			d.Others.Mounts++
			continue
		}

		s.Bytes = runs.DiskUsage(s.Path)
		d.Mounts = append(d.Mounts, Mount{Mountpoint: m.Mountpoint, State: MountState(m), Store: s})
	}
}

// MountState returns the state of a mount: Mounted, Dead or Hanging. It waits for an answer of the daemon, see daemon.Ping.
func MountState(m locate.Mount) string {
	switch err := daemon.Ping(m.Mountpoint); {
	case errors.Is(err, unix.ENOTCONN):
		return Dead
	case err != nil && !errors.Is(err, unix.EACCES):
		return Hanging
	}
	return Mounted
}

// findStores finds the stores in the directory that are not mounted. It looks at the entries of the directory, and at
// .claude/worktrees/.amberfs.
func (d *Directory) findStores() {
	entries, _ := os.ReadDir(d.Dir) // if the directory cannot be read, its stores cannot be used either
	paths := []string{filepath.Join(d.Dir, ".claude/worktrees/.amberfs")}
	for _, e := range entries {
		if e.IsDir() {
			paths = append(paths, filepath.Join(d.Dir, e.Name()))
		}
	}

	for _, path := range paths {
		mounted := slices.ContainsFunc(d.Mounts, func(m Mount) bool { return m.Path == path || m.Mountpoint == path })
		if mounted || storedir.Check(path) != nil {
			continue
		}

		s := storeAt(path)
		s.Bytes = runs.DiskUsage(path)
		d.Stores = append(d.Stores, s)
	}
}

// storeAt returns the store at a path, without its Bytes.
func storeAt(path string) Store {
	from, _ := storedir.FilledSource(path) // "" if it cannot be read
	return Store{Path: path, From: from}
}
