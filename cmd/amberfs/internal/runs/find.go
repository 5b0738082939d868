package runs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
)

// A Finder looks for runs in the stores below StoresDir.
type Finder struct {
	Command string // the user's command line, for the event log
	Note    func(format string, args ...any)
}

// ListAll returns the runs of all directories, the last used first. It deletes expired runs, and stores without runs.
func (f *Finder) ListAll(ctx context.Context) ([]Run, error) {
	all, _, err := f.ListWithCopies(ctx)
	return all, err
}

// ListWithCopies does what ListAll does. It also returns the copy of each directory, which the runs of the directory
// share.
func (f *Finder) ListWithCopies(ctx context.Context) (out, copies []Run, err error) {
	stores, err := Stores()
	if err != nil {
		return nil, nil, err
	}

	return f.ListAndPrune(ctx, stores)
}

// ListAndPrune does what ListWithCopies does, but only for the given stores.
func (f *Finder) ListAndPrune(ctx context.Context, stores []string) (out, copies []Run, err error) {
	out = []Run{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(4)

	for _, store := range stores {
		g.Go(func() error {
			all, c, err := f.listAndPruneStore(ctx, store)
			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				f.Note("cannot look at %s: %v", store, err)
			} else if out = append(out, all...); c != nil {
				copies = append(copies, *c)
			}

			return ctx.Err()
		})
	}

	err = g.Wait()
	newestFirst := func(x, y Run) int { return y.LastUsed.Compare(x.LastUsed) }
	slices.SortStableFunc(out, newestFirst)
	slices.SortStableFunc(copies, newestFirst)

	return out, copies, err
}

// listAndPruneStore returns the runs in a store, and the copy that they share, nil if there is no copy. It deletes
// expired runs. It removes a store without runs, unless the store is so new that a run may be beginning in it.
func (f *Finder) listAndPruneStore(ctx context.Context, store string) (found []Run, c *Run, err error) {
	dir, _ := SourceDir(store)
	err = f.WithStore(ctx, store, func(main *client.Client) error {
		if found, err = List(ctx, main, dir, store); err == nil {
			found = WithSizes(ctx, main, DeleteExpired(ctx, main, found))
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	st, err := os.Stat(filepath.Join(store, "format"))
	if err != nil {
		return found, nil, nil // another process removed the store
	}

	c = &Run{Dir: dir, State: CopyState, Runs: len(found), Bytes: DiskUsage(store), Store: store, Created: st.ModTime(), LastUsed: st.ModTime()}
	for _, r := range found {
		if c.DirGone = r.DirGone; r.LastUsed.After(c.LastUsed) {
			c.LastUsed = r.LastUsed
		}
	}
	if len(found) > 0 || time.Since(c.Created) < removedLifetime {
		return found, c, nil
	}

	removed, err := RemoveIfEmpty(store)
	if removed {
		f.Note("the copy of %s is removed: no run needs it", dir)
		c = nil
	}

	return nil, c, err
}

// WithStore calls fn with a connection to a store of runs. It starts a daemon if none serves the store.
func (f *Finder) WithStore(ctx context.Context, store string, fn func(main *client.Client) error) error {
	return sandbox.WithDaemon(ctx, store, func(daemon.Message) {}, func() error {
		return client.WithClient(ctx, client.Target{Store: store, Command: f.Command}, fn)
	})
}

// ResolveDirAndStore returns a directory's path without symbolic links, and the path of the store of its runs, which may not
// exist.
func ResolveDirAndStore(dir string) (resolved, store string, err error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return "", "", err
	}
	root, err := StoresDir()
	if err != nil {
		return "", "", err
	}

	dir = locate.Resolve(mounts, dir)
	return dir, StorePath(locate.Resolve(mounts, root), mounts, dir), nil
}

// WithLastApplied calls fn with one of the runs of a directory: the run that was applied last. An undone apply does
// not count.
func (f *Finder) WithLastApplied(ctx context.Context, dir string, fn func(r *Run, c *client.Client) error) error {
	dir, store, err := ResolveDirAndStore(dir)
	if err != nil {
		return err
	}

	notFound := errs.Fail(errs.NotExist, "there is no apply to %s to undo", dir).WithHint("see `amberfs runs`")
	if _, ok := SourceDir(store); !ok {
		return notFound
	}

	return f.WithStore(ctx, store, func(main *client.Client) error {
		all, err := List(ctx, main, dir, store)
		if err != nil {
			return err
		}

		var last *Run
		var lastTime time.Time

		for i, r := range all {
			err := f.withConnection(ctx, &r, func(c *client.Client) error {
				op, err := FindApply(ctx, c, 0, "the run "+r.Name)
				if err == nil && r.State != service.RunRemoved && op.At.After(lastTime) {
					last, lastTime = &all[i], op.At
				}
				return err
			})
			if errors.Is(err, ErrUndone) {
				notFound = errs.ErrorOf(err)
			} else if err != nil && errs.ScriptKind(err) != errs.NotExist {
				return err
			}
		}

		if last == nil {
			return notFound
		}
		return f.withConnection(ctx, last, func(c *client.Client) error { return fn(last, c) })
	})
}

// withConnection calls fn with a connection to a run. A daemon must be serving the store.
func (f *Finder) withConnection(ctx context.Context, r *Run, fn func(c *client.Client) error) error {
	return client.WithClient(ctx, client.Target{Store: r.Store, Workspace: r.Name, Command: f.Command}, fn)
}

// WithRun calls fn with a run and a connection to it. It looks for the name among the runs of the
// directory, then among the runs of other directories. Without a name, it takes the directory's newest run.
func (f *Finder) WithRun(ctx context.Context, dir, name string, fn func(r *Run, c *client.Client) error) error {
	dir, store, err := ResolveDirAndStore(dir)
	if err != nil {
		return err
	}

	found, err := f.withRunInStore(ctx, store, name, fn)
	if owner := NameOwner(store, name); !found && err == nil && owner != "" && owner != store {
		found, err = f.withRunInStore(ctx, owner, name, fn)
	}
	if !found && err == nil && name != "" {
		found, err = f.withUnlinkedRun(ctx, name, fn)
	}
	if !found && err == nil {
		_, err = ChooseRun(nil, name, dir)
	}

	return err
}

// withUnlinkedRun does the work of WithRun for a run whose name has no link in namesDir. Such a run was made by an
// earlier version of amberfs, or with another AMBERFS_RUNS. Several directories may have a run with such a name.
func (f *Finder) withUnlinkedRun(ctx context.Context, name string, fn func(r *Run, c *client.Client) error) (found bool, err error) {
	stores, err := Stores()
	if err != nil {
		return false, err
	}

	var withName, dirs []string
	for _, store := range stores {
		if _, err := f.withRunInStore(ctx, store, name, func(r *Run, _ *client.Client) error {
			withName, dirs = append(withName, store), append(dirs, r.Dir)
			return nil
		}); err != nil {
			return false, err
		}
	}

	switch len(withName) {
	case 0:
		return false, nil
	case 1:
		return f.withRunInStore(ctx, withName[0], name, fn)
	}

	return false, errs.Fail(errs.Invalid, "several directories have a run %s: %s", name, strings.Join(dirs, ", ")).WithHint("name one with -C DIR")
}

// withRunInStore does the work of WithRun for the runs of one store.
func (f *Finder) withRunInStore(ctx context.Context, store, name string, fn func(r *Run, c *client.Client) error) (found bool, err error) {
	dir, ok := SourceDir(store)
	if !ok {
		return false, nil
	}

	err = f.WithStore(ctx, store, func(main *client.Client) error {
		all, err := List(ctx, main, dir, store)
		if err != nil {
			return err
		}

		var r *Run
		if i := slices.IndexFunc(all, func(r Run) bool { return name != "" && r.Name == name }); i >= 0 {
			r = &all[i]
		} else if r, err = ChooseRun(all, name, dir); err != nil {
			return nil
		}

		found = true
		return f.withConnection(ctx, r, func(c *client.Client) error { return fn(r, c) })
	})

	return found, err
}
