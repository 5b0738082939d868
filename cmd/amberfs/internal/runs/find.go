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

// A Finder looks for runs in the stores below Root.
type Finder struct {
	Command string // the user's command line, for the event log
	Note    func(format string, args ...any)
}

// All lists the runs of all directories, the newest first. It removes expired runs.
func (f *Finder) All(ctx context.Context) ([]Run, error) {
	all, _, err := f.Look(ctx)
	return all, err
}

// Look returns all runs, as All does, and the copies that the runs of each directory share.
func (f *Finder) Look(ctx context.Context) (out, copies []Run, err error) {
	root, err := Root()
	if err != nil {
		return nil, nil, err
	}

	stores, err := Stores(root)
	if err != nil {
		return nil, nil, err
	}

	return f.LookIn(ctx, stores)
}

// LookIn does the work of Look for some of the stores.
func (f *Finder) LookIn(ctx context.Context, stores []string) (out, copies []Run, err error) {
	out = []Run{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(4)

	for _, store := range stores {
		g.Go(func() error {
			all, c, err := f.lookIn(ctx, store)
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
	newestFirst := func(x, y Run) int { return y.Used.Compare(x.Used) }
	slices.SortFunc(out, newestFirst)
	slices.SortFunc(copies, newestFirst)

	return out, copies, err
}

// lookIn returns the runs in a store, and their copy. It removes a store without runs, unless the store is so
// new that a run may be beginning in it.
func (f *Finder) lookIn(ctx context.Context, store string) (all []Run, c *Run, err error) {
	dir, _ := Dir(store)
	err = f.OnStore(ctx, store, func(main *client.Client) error {
		if all, err = List(ctx, main, dir, store); err == nil {
			all = Sizes(ctx, main, Expire(ctx, main, all))
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}

	st, err := os.Stat(filepath.Join(store, "format"))
	if err != nil {
		return all, nil, nil // another process removed the store
	}

	c = &Run{Dir: dir, State: Copy, Runs: len(all), Bytes: Size(store), Store: store, Created: st.ModTime(), Used: st.ModTime()}
	for _, r := range all {
		if c.Gone = r.Gone; r.Used.After(c.Used) {
			c.Used = r.Used
		}
	}
	if len(all) > 0 || time.Since(c.Created) < keptRemoved {
		return all, c, nil
	}

	removed, err := RemoveEmpty(store)
	if removed {
		f.Note("the copy of %s is removed: no run needs it", dir)
		c = nil
	}

	return nil, c, err
}

// OnStore calls fn with a connection to a store of runs. It starts a daemon if none serves the store.
func (f *Finder) OnStore(ctx context.Context, store string, fn func(main *client.Client) error) error {
	return sandbox.Serve(ctx, store, func(daemon.Message) {}, func() error {
		return client.WithClient(ctx, client.Target{Store: store, Command: f.Command}, fn)
	})
}

// StoreOf returns a directory's path without symbolic links, and the path of the store of its runs, which may not exist.
func StoreOf(dir string) (resolved, store string, err error) {
	mounts, err := locate.Mounts()
	if err != nil {
		return "", "", err
	}
	root, err := Root()
	if err != nil {
		return "", "", err
	}

	dir = locate.Resolve(mounts, dir)
	return dir, Store(locate.Resolve(mounts, root), mounts, dir), nil
}

// OnApplied calls fn with the run of a directory that was applied last, not counting undone applies.
func (f *Finder) OnApplied(ctx context.Context, dir string, fn func(r *Run, c *client.Client) error) error {
	dir, store, err := StoreOf(dir)
	if err != nil {
		return err
	}

	none := errs.Fail(errs.NotExist, "there is no apply to %s to undo", dir).WithHint("see `amberfs runs`")
	if _, ok := Dir(store); !ok {
		return none
	}

	return f.OnStore(ctx, store, func(main *client.Client) error {
		all, err := List(ctx, main, dir, store)
		if err != nil {
			return err
		}

		var last *Run
		var when time.Time

		for i, r := range all {
			err := f.open(ctx, &r, func(c *client.Client) error {
				op, err := ToUndo(ctx, c, 0, "the run "+r.Name)
				if err == nil && r.State != service.RunRemoved && op.At.After(when) {
					last, when = &all[i], op.At
				}
				return err
			})
			if errors.Is(err, ErrUndone) {
				none = errs.ErrorOf(err)
			} else if err != nil && errs.ScriptKind(err) != errs.NotExist {
				return err
			}
		}

		if last == nil {
			return none
		}
		return f.open(ctx, last, func(c *client.Client) error { return fn(last, c) })
	})
}

// open calls fn with a connection to a run. A daemon must be serving the store.
func (f *Finder) open(ctx context.Context, r *Run, fn func(c *client.Client) error) error {
	return client.WithClient(ctx, client.Target{Store: r.Store, Workspace: r.Name, Command: f.Command}, fn)
}

// On calls fn with a run and a connection to it. It looks for the name among the runs of the
// directory, then among the runs of other directories. Without a name, it takes the directory's newest run.
func (f *Finder) On(ctx context.Context, dir, name string, fn func(r *Run, c *client.Client) error) error {
	dir, store, err := StoreOf(dir)
	if err != nil {
		return err
	}

	found, err := f.onOne(ctx, store, name, fn)
	if owner := Owner(store, name); !found && err == nil && owner != "" && owner != store {
		found, err = f.onOne(ctx, owner, name, fn)
	}
	if !found && err == nil && name != "" {
		found, err = f.onUnlinked(ctx, name, fn)
	}
	if !found && err == nil {
		_, err = Choose(nil, name, dir)
	}

	return err
}

// onUnlinked does the work of On for a run whose name has no link in namesDir, because an earlier version of
// amberfs made it, or because it was made with another AMBERFS_RUNS. Several directories may have a run with such
// a name.
func (f *Finder) onUnlinked(ctx context.Context, name string, fn func(r *Run, c *client.Client) error) (found bool, err error) {
	root, err := Root()
	if err != nil {
		return false, err
	}

	stores, err := Stores(root)
	if err != nil {
		return false, err
	}

	var in, dirs []string
	for _, store := range stores {
		if _, err := f.onOne(ctx, store, name, func(r *Run, _ *client.Client) error {
			in, dirs = append(in, store), append(dirs, r.Dir)
			return nil
		}); err != nil {
			return false, err
		}
	}

	switch len(in) {
	case 0:
		return false, nil
	case 1:
		return f.onOne(ctx, in[0], name, fn)
	}

	return false, errs.Fail(errs.Invalid, "several directories have a run %s: %s", name, strings.Join(dirs, ", ")).WithHint("name one with -C DIR")
}

// onOne does the work of On for the runs of one store.
func (f *Finder) onOne(ctx context.Context, store, name string, fn func(r *Run, c *client.Client) error) (found bool, err error) {
	dir, ok := Dir(store)
	if !ok {
		return false, nil
	}

	err = f.OnStore(ctx, store, func(main *client.Client) error {
		all, err := List(ctx, main, dir, store)
		if err != nil {
			return err
		}

		var r *Run
		if i := slices.IndexFunc(all, func(r Run) bool { return name != "" && r.Name == name }); i >= 0 {
			r = &all[i]
		} else if r, err = Choose(all, name, dir); err != nil {
			return nil
		}

		found = true
		return f.open(ctx, r, func(c *client.Client) error { return fn(r, c) })
	})

	return found, err
}
