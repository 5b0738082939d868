package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/runs"
	"github.com/amberfs/amberfs/gitbridge"
	"github.com/amberfs/amberfs/internal/fail"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot/naming"
	"github.com/amberfs/amberfs/snapshot/storedir"
)

func refreshCommand(a *app) *cobra.Command {
	var req service.Refresh
	var run string
	cmd := &cobra.Command{
		Use:   "refresh [DIR] [--run NAME] [--ours|--theirs] [--dry-run]",
		Short: "Bring in what changed in the directory",
		Long: `Merges into the workspace what changed in DIR since it was copied or refreshed last.

Text that both changed is merged by lines. Conflicts are listed, and then nothing is
changed. "amberfs undo" undoes the refresh.`,
		Example: `  amberfs refresh
  amberfs refresh --run project-1 --theirs`,
		Args: args(0, 1, "perhaps a DIR"),
		RunE: func(cmd *cobra.Command, argv []string) error {
			if run != "" {
				return a.onRun(cmd.Context(), run, func(r *runs.Run, c *client.Client) error {
					return a.refreshWorkspace(cmd.Context(), c, r.Dir, r.Store, req)
				})
			}
			p, c, err := a.openHere(cmd.Context())
			if err != nil {
				return err
			}
			defer c.Close()
			dir := strings.Join(argv, "")
			if dir == "" {
				if dir, err = storedir.FilledFrom(p.Store); err != nil || dir == "" {
					return fail.New(fail.Usage, "the workspace was not filled from a directory").WithHint("name the DIR")
				}
			} else if dir, err = a.abs(dir); err != nil {
				return err
			}
			if err := notItself(p, dir); err != nil {
				return err
			}
			return a.refreshWorkspace(cmd.Context(), c, dir, p.Store, req)
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "refresh the run `NAME`")
	cmd.Flags().BoolVar(&req.Ours, "ours", false, "keep the workspace's version of conflicting paths")
	cmd.Flags().BoolVar(&req.Theirs, "theirs", false, "take DIR's version of conflicting paths")
	cmd.Flags().BoolVarP(&req.DryRun, "dry-run", "n", false, "only list what would change")
	return cmd
}

// notItself refuses a directory that is in the workspace.
func notItself(p locate.Place, dir string) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	q, err := locate.Find(mounts, dir)
	if err != nil || q.Store != p.Store {
		return nil
	}
	e := fail.New(fail.Usage, "%s is the workspace itself here, not the directory that it was copied from", dir)
	if _, ok := runs.Dir(p.Store); ok && len(p.Workspace) > 0 {
		return e.WithHint("leave the run, and use `amberfs apply --run %s`", p.Workspace[0])
	}
	return e.WithHint("leave the run, and use `%s`", applyLine(p.Store, strings.Join(p.Workspace, "/"), dir, ""))
}

func (a *app) refreshWorkspace(ctx context.Context, c *client.Client, dir, store string, req service.Refresh) error {
	done, err := a.refresh(ctx, c, dir, store, req)
	if err != nil && len(done.Conflicts) > 0 {
		return a.printFailed(done, err, func() { a.printPaths(done.Conflicts) })
	}
	if err != nil {
		return err
	}
	return a.print(done, func() {
		a.printf("%s", changedLines("refreshed", "would refresh", done.DryRun, "from "+quote(dir), done.Changed, a.listed(done.Paths), 0))
	})
}

// refresh sends what changed in a directory. If another process refreshed the workspace
// meanwhile, it begins again.
func (a *app) refresh(ctx context.Context, c *client.Client, dir, store string, req service.Refresh) (done service.Refreshed, err error) {
	for range 5 {
		if done, err = a.refreshOnce(ctx, c, dir, store, req); fail.KindOf(err) != fail.Busy {
			break
		}
	}
	return done, err
}

func (a *app) refreshOnce(ctx context.Context, c *client.Client, dir, store string, req service.Refresh) (done service.Refreshed, err error) {
	ch, err := c.Changes(ctx, "base") // only what it had before is needed
	if err != nil {
		return done, err
	}
	defer ch.Close()
	id, _ := ch.Base.ID()
	req.Base = id.String()
	bar := a.newProgress()
	defer bar.done()
	o := gitbridge.DirOptions{Exclude: a.notCopied(dir, store), OwnGit: true}
	o.Progress = func(p gitbridge.Progress) {
		bar.show(service.Progress{What: "refreshing", Done: p.Files, Unit: "files", Bytes: p.Bytes})
	}
	left := &leftOut{}
	o.Skip = left.add
	pr, pw := io.Pipe()
	defer pr.Close()
	go func() {
		sink := gitbridge.NewStreamSink(pw)
		err := gitbridge.ReadChanges(ctx, dir, ch.Source, ch.Base, sink.Add, o)
		if err == nil {
			err = sink.Close()
		}
		pw.CloseWithError(err)
	}()
	err = c.Do(ctx, req, client.Exchange{In: pr}, &done)
	bar.done()
	if left.n > 0 {
		a.note("%s of %s cannot be read and are left out: %v", plural(left.n, "path", "paths"), quote(dir), left.first)
	}
	return done, err
}

// leftOut counts what cannot be read.
type leftOut struct {
	n     int
	first error
}

func (l *leftOut) add(_ string, reason error) {
	if l.n++; l.n == 1 {
		l.first = reason
	}
}

// notCopied are the directories below dir that are not a part of it.
func (a *app) notCopied(dir, store string) []string {
	out := []string{store}
	if root, err := runs.Root(); err == nil {
		out = append(out, root)
	}
	if mounts, err := locate.Mounts(); err == nil {
		for _, m := range locate.OfStore(mounts, store) {
			out = append(out, m.Mountpoint)
		}
		if _, ok := locate.On(mounts, dir); ok {
			out = append(out, filepath.Join(dir, naming.SnapshotsDir), filepath.Join(dir, naming.ForksDir))
		}
	}
	return out
}
