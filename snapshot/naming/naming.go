package naming

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
)

// maxNameBytes is the largest length of the name of a snapshot or fork.
const maxNameBytes = 128

var (
	namePattern     = pattern.New(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)
	autoNamePattern = pattern.New(`^cp-[0-9]+$`)
)

// controlNames are the names in .snapshots that are not snapshots.
var controlNames = map[string]bool{
	"create": true, "restore": true, "fork": true, "export": true, "call": true, "push": true, "list": true, "log": true,
	"status": true, "policy": true, "latest": true, "undo": true, "base": true, "README": true,
}

// ErrBadName is the kind of Check's error for a name that no snapshot or fork can have.
var ErrBadName = errs.New(errs.Invalid, "refused name")

// MaxDescriptionBytes is the largest total size of the message and the labels of a snapshot.
const MaxDescriptionBytes = 64 << 10

// CheckDescription returns an errs.Invalid error if a message and labels are larger than MaxDescriptionBytes.
func CheckDescription(message string, labels map[string]string) error {
	n := len(message)
	for k, v := range labels {
		n += len(k) + len(v)
	}
	if n > MaxDescriptionBytes {
		return errs.New(errs.Invalid, "malformed request: message and labels have %d bytes, at most %d are possible", n, MaxDescriptionBytes)
	}

	return nil
}

// Check returns an error with the reason if no snapshot or fork can have the given name. The error is
// ErrBadName or errs.NameTooLong.
func Check(name string) error {
	switch {
	case len(name) > maxNameBytes:
		return errs.New(errs.NameTooLong, "name too long: %d bytes, at most %d are possible", len(name), maxNameBytes)
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrBadName)
	case !namePattern().MatchString(name):
		return fmt.Errorf("%w: %q; use letters, digits, '_', '.' and '-', and begin with a letter, digit or '_'", ErrBadName, name)
	case controlNames[name], strings.HasPrefix(name, "call."):
		return fmt.Errorf("%w: %q is a control file of .snapshots", ErrBadName, name)
	case strings.Contains(name, ".."), strings.HasSuffix(name, "."), strings.HasSuffix(name, ".lock"):
		return fmt.Errorf("%w: %q could not be a git ref (no '..', no '.' or '.lock' at the end)", ErrBadName, name)
	case autoNamePattern().MatchString(name):
		return fmt.Errorf("%w: %q is reserved for snapshots without a name", ErrBadName, name)
	}
	return nil
}

// IsAuto reports whether a name has the form of automatic names: cp-N.
func IsAuto(name string) bool { return autoNamePattern().MatchString(name) }

// LocalName returns the name in this store of a snapshot that was taken in another store. An automatic name gets a
// prefix, because this store has, or will have, its own snapshot of that name.
func LocalName(name string) string {
	if IsAuto(name) {
		return "pulled-" + name
	}
	return name
}

// The names of the control directories in the root of every workspace.
const (
	SnapshotsDir = ".snapshots"
	ForksDir     = ".forks"
)

// IsControlDir reports whether a name in the root of a workspace is a control directory.
func IsControlDir(name string) bool { return name == SnapshotsDir || name == ForksDir }

// IsUnder reports whether a path is dir or below dir.
func IsUnder(p, dir string) bool { return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/") }

// IsUnderAny reports whether a path is one of several paths, or below one of them.
func IsUnderAny[P ~string](p string, dirs []P) bool {
	return slices.ContainsFunc(dirs, func(dir P) bool { return IsUnder(p, string(dir)) })
}

// NearestIn returns p, or the nearest directory above p, that is in the set; "" if there is none.
func NearestIn(p string, set map[string]bool) string {
	for ; len(set) > 0 && p != "." && p != "/" && p != ""; p = path.Dir(p) {
		if set[p] {
			return p
		}
	}
	return ""
}

// CleanPaths checks paths that a user gave, relative to the root of a workspace, and returns them in
// their shortest form. It returns nil if one of them is the root. The error is errs.Invalid.
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
