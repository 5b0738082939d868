package runs

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/amberfs/amberfs/internal/errs"
)

// groupsDir is a directory next to the stores. For each run of several directories, it has a file, named as the
// run, with the other directories. Each of these has its own store, and in it a run with its own name.
const groupsDir = "groups"

// A Member is another directory of a run.
type Member struct {
	Dir  string `json:"dir"`
	Name string `json:"name,omitempty"` // the name of its run; "" for a directory that is only read
}

func groupFile(store, name string) string {
	return filepath.Join(filepath.Dir(store), groupsDir, name)
}

// SetGroup records the other directories of a run. GiveBack removes the file.
func SetGroup(store, name string, members []Member) error {
	file := groupFile(store, name)
	b, err := json.Marshal(members)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = os.WriteFile(groupFile(store, ".new-"+name), b, 0o600)
	}
	if err == nil {
		err = os.Rename(groupFile(store, ".new-"+name), file)
	}
	if err != nil {
		return errs.Fail(errs.ScriptKind(err), "cannot record the directories of the run: %w", err)
	}

	return nil
}

// Group returns the other directories of a run. Most runs have none.
func Group(store, name string) (members []Member, err error) {
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
	files, _ := os.ReadDir(filepath.Join(filepath.Dir(store), groupsDir)) // mostly there is no such directory
	return len(files) > 0
}
