package byfiles

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/amberfs/amberfs/cmd/amberfs/internal/fail"
	"github.com/amberfs/amberfs/snapshot"
)

// ErrCannot is what a request gives that files cannot carry.
var ErrCannot = errors.New("this takes the socket in the store")

// Workspace is a workspace, by the path of its root.
type Workspace struct {
	Root string
	// Output gets a diff, and OnItem each event of the log.
	Output io.Writer
	OnItem func(json.RawMessage) error
}

// Alive reports whether the control files answer.
func (w Workspace) Alive() bool {
	_, err := os.Lstat(w.control("status"))
	return err == nil
}

func (w Workspace) control(name string) string { return filepath.Join(w.Root, ".snapshots", name) }

func (w Workspace) fork(name string) Workspace {
	return Workspace{Root: filepath.Join(w.Root, ".forks", name)}
}

// last is the last result of a control file.
type last struct {
	OK       bool   `json:"ok"`
	Error    string `json:"error"`
	Name     string `json:"name"`
	Snapshot string `json:"snapshot"`
	Changed  int    `json:"changed"`
	Undo     string `json:"undo"`
}

// readJSON reads a control file.
func (w Workspace) readJSON(name string, v any) error {
	b, err := os.ReadFile(w.control(name))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// explain is an error of a request, with the sentence that a control file has
// about it.
func (w Workspace) explain(file string, err error) error {
	if err == nil {
		return nil
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	kind := fail.KindOf(err)
	switch errno {
	case unix.EINVAL, unix.ENAMETOOLONG:
		kind = fail.Usage
	case unix.EIO:
		kind = fail.Damage
	}
	var l last
	if rerr := w.readJSON(file, &l); rerr == nil && !l.OK && l.Error != "" {
		return fail.New(kind, "%s", l.Error)
	}
	return fail.New(kind, "%w", err)
}

// command writes a line to a control file and returns what came of it.
func (w Workspace) command(file, line string) (last, error) {
	f, err := os.OpenFile(w.control(file), os.O_WRONLY, 0)
	if err != nil {
		return last{}, fail.New(fail.KindOf(err), "%w", err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		return last{}, w.explain(file, err)
	}
	var l last
	return l, w.readJSON(file, &l)
}

// info is all about a snapshot.
func (w Workspace) info(name string) (snapshot.Info, error) {
	var i snapshot.Info
	if name == "" || strings.ContainsAny(name, "/\x00") {
		return i, fail.New(fail.NotFound, "no such snapshot: %q", name)
	}
	err := w.readJSON("info@"+name, &i)
	if errors.Is(err, os.ErrNotExist) {
		err = fail.New(fail.NotFound, "no such snapshot: %q; see .snapshots/list or `amberfs list`", name)
	}
	return i, err
}

// list is all snapshots, newest first.
func (w Workspace) list() ([]snapshot.Info, error) {
	b, err := os.ReadFile(w.control("list"))
	if err != nil {
		return nil, err
	}
	out := []snapshot.Info{}
	for line := range strings.Lines(string(b)) {
		name, _, ok := strings.Cut(line, "\t")
		if !ok {
			break // no snapshots
		}
		i, err := w.info(name)
		if fail.KindOf(err) == fail.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// quoteField writes a path as a control file takes it.
func quoteField(p string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(p) + `"`
}
