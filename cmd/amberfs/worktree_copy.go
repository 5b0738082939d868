package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/worktrees"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
)

// mountCopyForWorktrees mounts the copy, without .git, of the repository that dir is in, and returns the mount point. If
// makesCopy is set, it also makes or refreshes the copy.
func mountCopyForWorktrees(ctx context.Context, a *app, dir string, makesCopy bool) (point string, err error) {
	top, err := worktrees.MainWorktree(ctx, dir)
	if err != nil {
		return "", err
	}

	table, err := locate.Mounts()
	if err != nil {
		return "", err
	}

	root, err := runs.StoresDir()
	if err != nil {
		return "", err
	}

	top, root = locate.Resolve(table, top), locate.Resolve(table, root)
	point = worktrees.CopyMountpoint(top)
	cfg := daemon.Config{Store: runs.StorePath(filepath.Join(root, "worktrees"), table, top), Mountpoint: point, From: top, Version: versionText()}
	if _, err := os.Lstat(cfg.Store); err != nil && !makesCopy {
		return "", errs.Fail(errs.NotExist, "%s has no worktrees", top).WithHint("`amberfs worktree add NAME` makes one")
	}

	if makesCopy {
		if _, cfg.Hidden, err = (&restrictions{}).forDir(top); err != nil {
			return "", err
		}
	}

	cfg.Exclude = []string{root, filepath.Join(top, ".git"), worktrees.LinksDir(top)}
	made, err := mountCopy(ctx, a, cfg)
	if err != nil || !makesCopy {
		return point, err
	}

	c, err := client.Open(ctx, client.Target{Store: cfg.Store, Command: a.command})
	if err != nil {
		return "", err
	}
	defer c.Close()

	return point, updateCopy(ctx, a, c, cfg, made)
}

// updateCopy makes the copy equal to the directory. It first restores the snapshot of the last update, because other
// programs, such as `git clean`, may have changed the copy since.
func updateCopy(ctx context.Context, a *app, c *client.Client, cfg daemon.Config, isNew bool) error {
	const snapshotName = "directory"
	if !isNew {
		err := c.Do(ctx, snapshot.RestoreOptions{Name: snapshotName}, client.Streams{}, nil)
		if err == nil {
			_, err = refreshFrom(ctx, a, c, cfg.From, cfg.Store, service.Refresh{MergeRules: snapshot.MergeRules{Theirs: true}}, runs.RefreshFilter{Exclude: cfg.Exclude, Hidden: cfg.Hidden})
		}
		if err == nil {
			err = c.Do(ctx, service.Remove{Names: []string{snapshotName}, Forget: true}, client.Streams{}, nil)
		}
		// A missing snapshot is no error: the first update was interrupted before it took the snapshot.
		if err != nil && errs.ScriptKind(err) != errs.NotExist {
			return err
		}
	}

	return c.Do(ctx, snapshot.CaptureOptions{Name: snapshotName}, client.Streams{}, nil)
}

// mountCopy mounts a store that is a copy of a directory. If the store does not exist, it makes the store, and isNew is
// true.
func mountCopy(ctx context.Context, a *app, cfg daemon.Config) (isNew bool, err error) {
	isMounted := func() bool {
		table, err := locate.Mounts()
		m, ok := locate.MountAt(table, cfg.Mountpoint)
		return err == nil && ok && m.Source == cfg.Store && daemon.Ping(cfg.Mountpoint) == nil
	}
	if isMounted() {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(cfg.Store), 0o700); err != nil {
		return false, err
	}

	_ = os.MkdirAll(cfg.Mountpoint, 0o777) // the daemon unmounts a dead mount, at which MkdirAll fails, and reports other errors
	bar := a.newProgress()
	defer bar.done()

	bar.expectFilesOf(cfg.From)
	s := messagePrinter(a, bar, func(*daemon.Ready) {})
	if isNew, err = daemon.MakeStore(ctx, cfg, s); err != nil {
		return false, err
	}

	cfg.From, cfg.Exclude = "", nil
	_, proc, err := daemon.Spawn(ctx, cfg, s, &syscall.SysProcAttr{Setsid: true})
	if err != nil && isMounted() { // another command has mounted the copy in the meantime
		return isNew, nil
	}
	if err != nil {
		return false, err
	}

	return isNew, proc.Process.Release()
}
