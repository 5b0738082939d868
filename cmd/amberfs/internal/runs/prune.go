package runs

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// PruneList lists the runs and stores that `runs prune` removes.
type PruneList struct {
	Runs   []Run `json:"runs"`
	Stores []Run `json:"stores"` // the copies of directories
	Bytes  int64 `json:"bytes"`  // bytes that are freed on disk
	DryRun bool  `json:"dry_run,omitempty"`
}

const blockSize = 512 // the unit of st_blocks, see stat(2)

func (p *PruneList) Empty() bool { return len(p.Runs)+len(p.Stores) == 0 }

// Prunable returns the runs that are applied, unchanged or removed, and the stores that have no other runs. It
// leaves out stores that cannot be read.
func (f *Finder) Prunable(ctx context.Context) (PruneList, error) {
	p := PruneList{Runs: []Run{}, Stores: []Run{}}
	all, stores, err := f.ListWithCopies(ctx)
	if err != nil {
		return p, err
	}

	inUse := make(map[string]bool)
	for _, r := range all {
		if r.State == service.RunRunning || r.State == service.RunKept && !r.isUnchanged() {
			inUse[r.Store] = true
		} else {
			p.Runs = append(p.Runs, r)
		}
	}

	for _, s := range stores {
		if !inUse[s.Store] {
			p.Stores = append(p.Stores, s)
			p.Bytes += s.Bytes
		}
	}

	for _, r := range p.Runs {
		if inUse[r.Store] { // not if the store is removed, too: its bytes include those of the run
			p.Bytes += r.Bytes
		}
	}

	return p, nil
}

// Prune removes the runs and stores in planned, except for those that were used since. It returns the removed ones.
func (f *Finder) Prune(ctx context.Context, planned PruneList) (PruneList, error) {
	p, err := f.Prunable(ctx)
	if err != nil {
		return p, err
	}

	p.Runs = slices.DeleteFunc(p.Runs, func(r Run) bool {
		return !slices.ContainsFunc(planned.Runs, func(w Run) bool { return w.Store == r.Store && w.Name == r.Name })
	})
	p.Stores = slices.DeleteFunc(p.Stores, func(s Run) bool {
		return !slices.ContainsFunc(planned.Stores, func(w Run) bool { return w.Store == s.Store })
	})
	for _, r := range p.Runs {
		if slices.ContainsFunc(p.Stores, func(s Run) bool { return s.Store == r.Store }) {
			continue
		}
		if err := f.WithStore(ctx, r.Store, func(main *client.Client) error { return DeleteRun(ctx, main, r.Store, r.Name) }); err != nil {
			return p, err
		}
	}

	for _, s := range p.Stores {
		if err := daemon.RemoveStore(s.Store); err != nil {
			return p, err
		}
		for _, name := range RunNames(s.Store) {
			ReleaseName(s.Store, name)
		}
	}

	return p, nil
}

// DiskUsage returns the bytes on disk of the files below a directory. It leaves out files that cannot be read.
func DiskUsage(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if i, err := e.Info(); err == nil {
				n += i.Sys().(*syscall.Stat_t).Blocks * blockSize
			}
		}
		return nil
	})
	return n
}
