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

// CopyState is the value of Run.State for the copy of a directory, which the runs of the directory share.
const CopyState = "copy"

// A Run is a run, or a copy of a directory, in a listing.
type Run struct {
	Name            string    `json:"name"`
	Dir             string    `json:"dir"`
	DirGone         bool      `json:"dir_gone,omitempty" jsonschema:"there is no such directory any more"`
	Created         time.Time `json:"created"`
	LastUsed        time.Time `json:"used"`
	State           string    `json:"state" jsonschema:"running, kept, applied or removed; copy for the copy of a directory that its runs share"`
	Command         string    `json:"command"`
	Changed         int       `json:"changed" jsonschema:"files that differ from the directory as it was copied, or that were applied"`
	InGit           int       `json:"in_git,omitempty" jsonschema:"paths that differ in git directories"`
	CountIncomplete bool      `json:"more,omitempty" jsonschema:"not all changed files were counted"`
	Runs            int       `json:"runs,omitempty" jsonschema:"that share a copy"`
	Bytes           int64     `json:"bytes" jsonschema:"that removing it frees"`
	Store           string    `json:"store"`
}

// List returns the runs in store, the store of the directory dir.
func List(ctx context.Context, main *client.Client, dir, store string) (out []Run, err error) {
	var l service.ForkList
	if err := main.Do(ctx, service.Forks{}, client.Streams{}, &l); err != nil {
		return nil, err
	}

	_, serr := os.Lstat(dir)
	for _, f := range l.Forks {
		r := Run{Name: f.Name, Dir: dir, DirGone: os.IsNotExist(serr), Created: f.Created, LastUsed: f.Created, State: service.RunKept, Changed: f.Changed, CountIncomplete: f.More, Store: store}
		if f.Run != nil {
			r.LastUsed, r.State, r.Command, r.InGit = f.Run.Used, f.Run.State, f.Run.Command, f.Run.InGit
		}
		if r.State == service.RunApplied {
			r.Changed = f.Run.Files
		}

		out = append(out, r)
	}

	return out, nil
}

// FindRun returns the run with a name. A daemon must be serving the store. commandLine is the user's command line.
func FindRun(ctx context.Context, store, name, commandLine string) (*Run, error) {
	dir, _ := SourceDir(store)
	main, err := client.Open(ctx, client.Target{Store: store, Command: commandLine})
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

// WithSizes returns the runs with Bytes set: the bytes that the deletion of each run would free.
func WithSizes(ctx context.Context, main *client.Client, list []Run) []Run {
	var d info.Disk
	_ = main.Do(ctx, service.DU{}, client.Streams{}, &d) // after an error, the sizes are 0
	out := slices.Clone(list)
	for i := range out {
		if f := slices.IndexFunc(d.Forks, func(f info.UsedBy) bool { return f.Name == out[i].Name }); f >= 0 {
			out[i].Bytes = d.Forks[f].Bytes
		}
	}

	return out
}

// Covers reports whether dir is the directory of the run, or is below it.
func (r *Run) Covers(dir string) bool { return naming.IsUnder(dir, r.Dir) }

// CheckRemovable returns an error for a run that cannot be removed, because it is running.
func (r *Run) CheckRemovable() error {
	if r.State == service.RunRunning {
		return errs.Fail(errs.Busy, "the run %s is running", r.Name).WithHint("end its program first")
	}
	return nil
}

func removedError(name string) error {
	return errs.Fail(errs.NotExist, "the run %s was removed", name).WithHint("get it back with `amberfs runs restore %s`", name)
}

const (
	appliedLifetime = 14 * 24 * time.Hour // from the last use of an applied or unchanged run to its removal
	removedLifetime = 24 * time.Hour      // from the removal of a run to its deletion
)

// HandoffCommand is the command of a run that keeps the state that was handed off.
const HandoffCommand = "amberfs handoff"

// isUnchanged reports whether the run equals the directory as it was copied. The run of a handoff counts as changed
// until the returned changes are applied.
func (r *Run) isUnchanged() bool {
	return r.Changed+r.InGit == 0 && !r.CountIncomplete && (r.Command != HandoffCommand || r.State == service.RunApplied)
}

// isExpired reports whether a run is old enough to be deleted without a question.
func (r *Run) isExpired(now time.Time) bool {
	age := now.Sub(r.LastUsed)
	switch r.State {
	case service.RunRemoved:
		return age > removedLifetime
	case service.RunApplied:
		return age > appliedLifetime
	case service.RunKept:
		return age > appliedLifetime && r.isUnchanged()
	}

	return false
}

// DeleteRun deletes the fork of a run, and releases the name. The caller must first check that no program is running
// in the run.
func DeleteRun(ctx context.Context, main *client.Client, store, name string) error {
	if err := main.Do(ctx, service.DeleteFork{Name: name, Discard: true, Forget: true}, client.Streams{}, nil); err != nil {
		return err
	}
	ReleaseName(store, name)
	return nil
}

// DeleteExpired deletes the expired runs, and returns the others.
func DeleteExpired(ctx context.Context, main *client.Client, list []Run) (remaining []Run) {
	for _, r := range list {
		if !r.isExpired(time.Now()) || DeleteRun(ctx, main, r.Store, r.Name) != nil {
			remaining = append(remaining, r)
		}
	}
	return remaining
}

// ChooseRun returns the run with a name or, without a name, the newest kept run. It returns an error if the run was
// removed.
func ChooseRun(list []Run, name, dir string) (*Run, error) {
	var newest *Run
	for i, r := range list {
		switch {
		case name == "" && r.State == service.RunKept && (newest == nil || r.LastUsed.After(newest.LastUsed)):
			newest = &list[i]
		case name != r.Name:
		case r.State == service.RunRemoved:
			return nil, removedError(name)
		default:
			return &list[i], nil
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

// MarkState takes a snapshot in a run, with the state of the run and the command line of its program.
func MarkState(ctx context.Context, commandLine, store, name, command, state string) error {
	return client.WithClient(ctx, client.Target{Store: store, Workspace: name, Command: commandLine}, func(c *client.Client) error {
		return takeSnapshot(ctx, c, command, map[string]string{service.RunLabel: state})
	})
}

func takeSnapshot(ctx context.Context, run *client.Client, command string, labels map[string]string) error {
	return run.Do(ctx, snapshot.CaptureOptions{Message: command, Labels: labels}, client.Streams{}, nil)
}
