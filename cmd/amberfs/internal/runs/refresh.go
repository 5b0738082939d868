package runs

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/worktrees"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/hostdir"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/threeway"
	"github.com/amberfs/amberfs/stream"
)

// RefreshFilter has the paths that a refresh does not read. If Hidden has no Paths, the refresh uses the hidden paths
// of the workspace.
type RefreshFilter struct {
	Exclude []string
	Hidden  hostdir.Hidden
	kept    []string // see hostdir.ReadOptions
}

// Refresh sends the changes of a directory to a workspace of the store that was filled from the directory. It
// tries again if another process refreshes the workspace or writes the directory at the same time, and without the
// git directories and working trees that cannot be merged.
func Refresh(ctx context.Context, c *client.Client, dir, store string, req service.Refresh, show func(service.Progress), filter RefreshFilter) (
	done service.Refreshed, leftOut hostdir.LeftOut, err error) {
	var unmerged []threeway.Repository // git directories and working trees that cannot be merged
	for range 5 {
		leftOut = hostdir.LeftOut{}
		done, err = refreshOnce(ctx, c, dir, store, req, show, leftOut.Add, filter)
		if errs.ScriptKind(err) == errs.Conflict && len(done.Conflicts) == 0 && len(done.Git) > 0 {
			for _, g := range done.Git {
				filter.kept = append(filter.kept, g.Dir)
			}
			// The git directory of a working tree has no lines, because those of the working tree say all.
			unmerged = append(unmerged, slices.DeleteFunc(done.Git, func(g threeway.Repository) bool { return len(g.Lines) == 0 })...)
			done.Git = nil
		} else if errs.ScriptKind(err) != errs.Busy && !errors.Is(err, io.ErrUnexpectedEOF) { // the latter: a file became shorter
			break
		}
	}
	done.Git = append(unmerged, done.Git...)
	return done, leftOut, err
}

func refreshOnce(ctx context.Context, c *client.Client, dir, store string, req service.Refresh, show func(service.Progress), skip func(string, error), filter RefreshFilter) (
	done service.Refreshed, err error) {
	ch, err := c.Changes(ctx, "base") // only ch.Base is needed
	if err != nil {
		return done, err
	}
	defer ch.Close()

	if err := requireMounted(dir, ch.Source, ch.Base); err != nil {
		return done, err
	}

	id, _ := ch.Base.ID()
	req.Base = id.String()
	if filter.Hidden.Paths == nil {
		filter.Hidden = ch.Hidden
	}
	o := ReadOptions(dir, store, filter.Hidden)
	o.Exclude = append(o.Exclude, filter.Exclude...)
	o.Progress, o.Kept, o.Skip, o.Prefetch = service.FilesProgress(show, "refreshing", 0), filter.kept, skip, ch.Prefetch

	err = c.Send(ctx, req, func(sink stream.Sink) error {
		return hostdir.ReadChanges(ctx, dir, ch.Source, ch.Base, sink, o)
	}, &done)
	return done, err
}

// ReadOptions returns the options with which a directory is read for a store.
func ReadOptions(dir, store string, hidden hostdir.Hidden) hostdir.ReadOptions {
	o := hostdir.ReadOptions{Exclude: excludedDirs(dir, store), Hidden: hidden, Git: gitbridge.HostGit{}, ReadDenied: true}
	_, o.StubUnreadable = SourceDir(store)
	return o
}

// excludedDirs returns the directories below dir that are not copied: stores, mounts and control directories.
func excludedDirs(dir, store string) []string {
	out := []string{store, worktrees.CopyMountpoint(dir)}
	if root, err := StoresDir(); err == nil {
		out = append(out, root)
	}

	if mounts, err := locate.Mounts(); err == nil {
		for _, m := range locate.StoreMounts(mounts, store) {
			out = append(out, m.Mountpoint)
		}
		if _, ok := locate.MountAt(mounts, dir); ok {
			out = append(out, filepath.Join(dir, naming.SnapshotsDir), filepath.Join(dir, naming.ForksDir))
		}
	}

	return out
}
