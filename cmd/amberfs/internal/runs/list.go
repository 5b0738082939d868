package runs

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service"
	"github.com/amberfs/amberfs/service/client"
	"github.com/amberfs/amberfs/snapshot"
	"github.com/amberfs/amberfs/snapshot/info"
	"github.com/amberfs/amberfs/snapshot/naming"
)

// Copy is the State, in a listing, of the copy of a directory that its runs share.
const Copy = "copy"

// A Run is a run in a listing.
type Run struct {
	Name    string    `json:"name"`
	Dir     string    `json:"dir"`
	Gone    bool      `json:"dir_gone,omitempty" jsonschema:"there is no such directory any more"`
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	State   string    `json:"state" jsonschema:"running, kept, applied or removed; copy for the copy of a directory that its runs share"`
	Command string    `json:"command"`
	Changed int       `json:"changed" jsonschema:"files that differ from the directory as it was copied, or that were applied"`
	InGit   int       `json:"in_git,omitempty" jsonschema:"paths that differ in git directories"`
	More    bool      `json:"more,omitempty" jsonschema:"not all changed files were counted"`
	Runs    int       `json:"runs,omitempty" jsonschema:"that share a copy"`
	Bytes   int64     `json:"bytes" jsonschema:"that removing it frees"`
	Store   string    `json:"store"`
}

// List returns the runs in the store of a directory.
func List(ctx context.Context, main *client.Client, dir, store string) (out []Run, err error) {
	var l service.ForkList
	if err := main.Do(ctx, service.Forks{}, client.Exchange{}, &l); err != nil {
		return nil, err
	}

	_, serr := os.Lstat(dir)
	for _, f := range l.Forks {
		r := Run{Name: f.Name, Dir: dir, Gone: os.IsNotExist(serr), Created: f.Created, Used: f.Created, State: service.RunKept, Changed: f.Changed, More: f.More, Store: store}
		if f.Run != nil {
			r.Used, r.State, r.Command, r.InGit = f.Run.Used, f.Run.State, f.Run.Command, f.Run.InGit
		}
		if r.State == service.RunApplied {
			r.Changed = f.Run.Files
		}

		out = append(out, r)
	}

	return out, nil
}

// Named returns a run in a store whose daemon is running.
func Named(ctx context.Context, store, name, user string) (*Run, error) {
	dir, _ := Dir(store)
	main, err := client.Open(ctx, client.Target{Store: store, Command: user})
	if err != nil {
		return nil, err
	}
	defer main.Close()

	all, err := List(ctx, main, dir, store)
	if err != nil {
		return nil, err
	}

	i := slices.IndexFunc(all, func(r Run) bool { return r.Name == name })
	if i < 0 {
		return nil, errs.Fail(errs.NotExist, "no such run: %s", name).WithHint("see `amberfs runs`")
	}

	return &all[i], nil
}

// Sizes fills in how much each run takes of its own.
func Sizes(ctx context.Context, main *client.Client, all []Run) []Run {
	var d info.Disk
	_ = main.Do(ctx, service.DU{}, client.Exchange{}, &d) // else they are not known
	out := slices.Clone(all)
	for i := range out {
		if f := slices.IndexFunc(d.Forks, func(f info.UsedBy) bool { return f.Name == out[i].Name }); f >= 0 {
			out[i].Bytes = d.Forks[f].Bytes
		}
	}

	return out
}

// Of reports whether it is a run of the directory that dir is in.
func (r *Run) Of(dir string) bool { return naming.Under(dir, r.Dir) }

// Removable reports whether a run can be removed.
func (r *Run) Removable() error {
	if r.State == service.RunRunning {
		return errs.Fail(errs.Busy, "the run %s is running", r.Name).WithHint("end its program first")
	}
	return nil
}

func removed(name string) error {
	return errs.Fail(errs.NotExist, "the run %s was removed", name).WithHint("get it back with `amberfs runs restore %s`", name)
}

const (
	keptApplied = 14 * 24 * time.Hour // after the last use
	keptRemoved = 24 * time.Hour
)

// unchanged reports whether nothing differs from the directory.
func (r *Run) unchanged() bool { return r.Changed+r.InGit == 0 && !r.More }

// expired reports whether a run is removed without asking.
func (r *Run) expired(now time.Time) bool {
	age := now.Sub(r.Used)
	switch r.State {
	case service.RunRemoved:
		return age > keptRemoved
	case service.RunApplied:
		return age > keptApplied
	case service.RunKept:
		return age > keptApplied && r.unchanged()
	}

	return false
}

// Delete deletes a run that no program is in.
func Delete(ctx context.Context, main *client.Client, store, name string) error {
	err := main.Do(ctx, service.DeleteFork{Name: name, Discard: true}, client.Exchange{}, nil)
	if err == nil {
		GiveBack(store, name)
	}
	return err
}

// Expire removes the runs that nobody needs, and returns the others.
func Expire(ctx context.Context, main *client.Client, all []Run) (left []Run) {
	for _, r := range all {
		if !r.expired(time.Now()) || Delete(ctx, main, r.Store, r.Name) != nil {
			left = append(left, r)
		}
	}
	return left
}

// Choose finds a run that can go on or be applied: by its name, or the newest.
func Choose(all []Run, name, dir string) (*Run, error) {
	var newest *Run
	for i, r := range all {
		switch {
		case name == "" && r.State == service.RunKept && (newest == nil || r.Used.After(newest.Used)):
			newest = &all[i]
		case name != r.Name:
		case r.State == service.RunRemoved:
			return nil, removed(name)
		default:
			return &all[i], nil
		}
	}
	if newest != nil {
		return newest, nil
	}

	what := "no run of " + dir + " is kept"
	if name != "" {
		what = "no such run: " + name
	}

	return nil, errs.Fail(errs.NotExist, "%s", what).WithHint("see `amberfs runs`")
}

// Mark takes a snapshot of a run that has its state and the command line of its program.
func Mark(ctx context.Context, user, store, name, command, state string) error {
	c, err := client.Open(ctx, client.Target{Store: store, Workspace: name, Command: user})
	if err != nil {
		return err
	}
	defer c.Close()
	return mark(ctx, c, command, map[string]string{service.RunLabel: state})
}

func mark(ctx context.Context, run *client.Client, command string, labels map[string]string) error {
	return run.Do(ctx, snapshot.CaptureOptions{Message: command, Labels: labels}, client.Exchange{}, nil)
}
