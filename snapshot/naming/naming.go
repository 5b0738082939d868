// Package naming has the names that snapshots and forks can have, and how paths are written
// in JSON.
package naming

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// maxName is the longest name of a snapshot or fork, in bytes.
const maxName = 128

var (
	nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	autoForm = regexp.MustCompile(`^cp-[0-9]+$`)
)

// controlNames are the names in .snapshots that mean something else.
var controlNames = map[string]bool{
	"create": true, "restore": true, "fork": true, "export": true, "call": true, "push": true, "list": true, "log": true,
	"status": true, "policy": true, "latest": true, "undo": true, "base": true, "README": true,
}

// ErrBad is wrapped by the error of a refused name.
var ErrBad = errs.New(errs.Invalid, "refused name")

// MaxDescription is how many bytes the message and the labels of a snapshot may have
// together.
const MaxDescription = 64 << 10

// CheckDescription refuses what is too much to be said about a snapshot.
func CheckDescription(message string, labels map[string]string) error {
	n := len(message)
	for k, v := range labels {
		n += len(k) + len(v)
	}
	if n > MaxDescription {
		return errs.New(errs.Invalid, "malformed request: message and labels have %d bytes, at most %d are possible", n, MaxDescription)
	}
	return nil
}

// Check refuses names that no snapshot or fork can have. The error is
// ErrBad or an errs.NameTooLong, with the reason.
func Check(name string) error {
	switch {
	case len(name) > maxName:
		return errs.New(errs.NameTooLong, "name too long: %d bytes, at most %d are possible", len(name), maxName)
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrBad)
	case !nameForm.MatchString(name):
		return fmt.Errorf("%w: %q; use letters, digits, '_', '.' and '-', and begin with a letter, digit or '_'", ErrBad, name)
	case controlNames[name], strings.HasPrefix(name, "call."):
		return fmt.Errorf("%w: %q is a control file of .snapshots", ErrBad, name)
	case strings.Contains(name, ".."), strings.HasSuffix(name, "."), strings.HasSuffix(name, ".lock"):
		return fmt.Errorf("%w: %q could not be a git ref (no '..', no '.' or '.lock' at the end)", ErrBad, name)
	case autoForm.MatchString(name):
		return fmt.Errorf("%w: %q is reserved for snapshots without a name", ErrBad, name)
	}
	return nil
}

// IsAuto reports whether a name is one that a snapshot without a name gets.
func IsAuto(name string) bool { return autoForm.MatchString(name) }

// Local is what a snapshot that was made elsewhere is called here: as there, unless
// that is the name of another one here, or will be.
func Local(name string) string {
	if IsAuto(name) {
		return "pulled-" + name
	}
	return name
}

// The control directories, which are found in the root of every workspace.
const (
	SnapshotsDir = ".snapshots"
	ForksDir     = ".forks"
)

// IsControlDir reports whether a name in the root of a workspace is that of a control
// directory.
func IsControlDir(name string) bool { return name == SnapshotsDir || name == ForksDir }

// Under reports whether a path is that of a directory, or below it.
func Under(p, dir string) bool { return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/") }

// CleanPaths checks paths that a user gave, and returns them in their shortest form; nil
// if the root is one of them.
func CleanPaths[P ~string](in []P) ([]string, error) {
	var out []string
	for _, given := range in {
		p := string(given)
		if p == "" || strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
			return nil, errs.New(errs.Invalid, "malformed request: path %q is not relative to the workspace's root", p)
		}
		clean := path.Clean(p)
		if clean == ".." || strings.HasPrefix(clean, "../") {
			return nil, errs.New(errs.Invalid, "malformed request: path %q leaves the workspace", p)
		}
		if clean == "." {
			return nil, nil
		}
		if top, _, _ := strings.Cut(clean, "/"); IsControlDir(top) {
			return nil, errs.New(errs.Invalid, "malformed request: path %q is not part of the workspace", p)
		}
		out = append(out, clean)
	}
	return out, nil
}
