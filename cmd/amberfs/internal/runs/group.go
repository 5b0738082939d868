package runs

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/service/client"
)

// groupsDir is a directory next to the stores. For each run with several directories it has a file, with the name
// of the run, that lists the directories other than the first. Each listed directory has a store and a run of its own,
// unless it is only read.
const groupsDir = "groups"

// A Member is another directory of a run.
type Member struct {
	Dir  string `json:"dir"`
	Name string `json:"name,omitempty"` // the name of its run; "" for a directory that is only read
}

func groupFile(store, name string) string {
	return filepath.Join(filepath.Dir(store), groupsDir, name)
}

// SetGroupMembers records the other directories of a run in a file. ReleaseName removes the file.
func SetGroupMembers(store, name string, members []Member) error {
	if err := writeGroupFile(store, name, members); err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot record the directories of the run: %w", err)
	}
	return nil
}

func writeGroupFile(store, name string, members []Member) error {
	b, err := json.Marshal(members)
	if err != nil {
		return err
	}

	file, temp := groupFile(store, name), groupFile(store, ".new-"+name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(temp, b, 0o600); err != nil {
		return err
	}

	return os.Rename(temp, file)
}

// GroupMembers returns the other directories of a run. Most runs have none.
func GroupMembers(store, name string) (members []Member, err error) {
	b, err := os.ReadFile(groupFile(store, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &members)
	}
	if err != nil {
		return nil, errs.Fail(errs.Failed, "cannot read the directories of the run %s: %w", name, err)
	}

	return members, nil
}

// HasGroups reports whether any run has several directories.
func HasGroups(store string) bool {
	files, _ := os.ReadDir(filepath.Join(filepath.Dir(store), groupsDir)) // usually this directory does not exist
	return len(files) > 0
}

// A Part is the part of a run in one of its directories. Each part is a run of its own, with which Client is connected.
type Part struct {
	Run     Run
	Client  *client.Client
	Changes *client.Changes
}

// WithGroup calls fn with the parts of the run r: r itself first, then the runs of its other directories.
func (f *Finder) WithGroup(ctx context.Context, r *Run, c *client.Client, fn func([]*Part) error) error {
	var members []Member
	var err error
	if r.Name != "" { // a workspace that is not a run has no name, and no members
		members, err = GroupMembers(r.Store, r.Name)
	}
	if err != nil {
		return err
	}

	return f.withParts(ctx, r, c, members, nil, fn)
}

// withParts opens the part of r and the parts of members. It calls fn with all parts: first those in opened, then the
// new ones.
func (f *Finder) withParts(ctx context.Context, r *Run, c *client.Client, members []Member, opened []*Part, fn func([]*Part) error) error {
	if err := r.CheckApplicable(r.Dir); err != nil {
		return err
	}

	ch, err := c.Changes(ctx, "")
	if err != nil {
		return err
	}
	defer ch.Close()

	opened = append(opened, &Part{Run: *r, Client: c, Changes: ch})
	for i, m := range members {
		if m.Name != "" {
			return f.WithRun(ctx, m.Dir, m.Name, func(r *Run, c *client.Client) error {
				return f.withParts(ctx, r, c, members[i+1:], opened, fn)
			})
		}
	}

	return fn(opened)
}

// WithEachRun calls fn for the run that WithRun finds, and then for each run of its other directories.
func (f *Finder) WithEachRun(ctx context.Context, dir, name string, fn func(r *Run, c *client.Client) error) error {
	var members []Member
	err := f.WithRun(ctx, dir, name, func(r *Run, c *client.Client) (err error) {
		if members, err = GroupMembers(r.Store, r.Name); err != nil {
			return err
		}
		return fn(r, c)
	})

	for _, m := range members {
		if err == nil && m.Name != "" {
			err = f.WithRun(ctx, m.Dir, m.Name, fn)
		}
	}

	return err
}
