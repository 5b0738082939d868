package runs

import (
	"context"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/daemon"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/locate"
	"github.com/amberfs/amberfs/cmd/amberfs/internal/sandbox"
	"github.com/amberfs/amberfs/service/client"
)

// A Finder looks for runs in the stores below Root.
type Finder struct {
	Command string // what the user ran, for the event log
	Note    func(format string, args ...any)
}

// All lists the runs of all directories, the newest first. Those that nobody needs are removed.
func (f *Finder) All(ctx context.Context) ([]Run, error) {
	all, _, err := f.look(ctx)
	return all, err
}

// look returns the runs in all stores, and the stores that could be read.
func (f *Finder) look(ctx context.Context) (out []Run, seen []string, err error) {
	root, err := Root()
	if err != nil {
		return nil, nil, err
	}
	stores, err := Stores(root)
	if err != nil {
		return nil, nil, err
	}
	out = []Run{}
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(4)
	for _, store := range stores {
		g.Go(func() error {
			err := f.OnStore(ctx, store, func(main *client.Client) error {
				dir, _ := Dir(store)
				all, err := List(ctx, main, dir, store)
				if err != nil {
					return err
				}
				all = Sizes(ctx, main, Expire(ctx, main, all))
				mu.Lock()
				defer mu.Unlock()
				out, seen = append(out, all...), append(seen, store)
				return nil
			})
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				f.Note("cannot look at %s: %v", store, err)
			}
			return ctx.Err()
		})
	}
	err = g.Wait()
	slices.SortFunc(out, func(x, y Run) int { return y.Used.Compare(x.Used) })
	return out, seen, err
}

// OnStore calls fn with a connection to a store of runs.
func (f *Finder) OnStore(ctx context.Context, store string, fn func(main *client.Client) error) error {
	return sandbox.Serve(ctx, store, func(daemon.Message) {}, func() error {
		main, err := client.Open(ctx, client.Target{Store: store, Command: f.Command})
		if err != nil {
			return err
		}
		defer main.Close()
		return fn(main)
	})
}

// On calls fn with a run and a connection to it: the run of a directory with that name, or one
// of another directory or, without a name, the newest of the directory.
func (f *Finder) On(ctx context.Context, dir, name string, fn func(r *Run, c *client.Client) error) error {
	mounts, err := locate.Mounts()
	if err != nil {
		return err
	}
	dir = locate.Resolve(mounts, dir)
	root, err := Root()
	if err != nil {
		return err
	}
	stores := []string{Store(locate.Resolve(mounts, root), mounts, dir)}
	if name != "" {
		all, err := Stores(root)
		if err != nil {
			return err
		}
		stores = append(stores, slices.DeleteFunc(all, func(s string) bool { return s == stores[0] })...)
	}
	for _, store := range stores {
		if found, err := f.onOne(ctx, store, name, fn); found || err != nil {
			return err
		}
	}
	_, err = Choose(nil, name, dir)
	return err
}

// onOne is On for the runs of one store.
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
		c, err := client.Open(ctx, client.Target{Store: store, Workspace: r.Name, Command: f.Command})
		if err != nil {
			return err
		}
		defer c.Close()
		return fn(r, c)
	})
	return found, err
}
