package actors

import (
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
	"github.com/amberfs/amberfs/internal/pattern"
)

// Unknown is the actor of a change without a record of its actor.
const Unknown = "unknown"

// maxNameBytes is the largest length of an actor's name.
const maxNameBytes = 128

var namePattern = pattern.New(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$`)

// Check returns an error for a string that is not a valid name of an actor.
func Check(name string) error {
	switch {
	case len(name) > maxNameBytes:
		return errs.New(errs.NameTooLong, "name too long: the actor has %d bytes, at most %d are possible", len(name), maxNameBytes)
	case !namePattern().MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "//") || strings.HasSuffix(name, "/"):
		return errs.New(errs.Invalid, "refused name: actor %q; use letters, digits, '_', '.', '-', ':' and '/', and begin with a letter, digit or '_'", name)
	}
	return nil
}

// IsOrBelow reports whether an actor equals name, or is below it: a/b is below a.
func IsOrBelow(actor, name string) bool {
	return actor == name || strings.HasPrefix(actor, name) && actor[len(name)] == '/'
}

// ContainsOrBelow reports whether a list has an actor that equals the given name, or is below it.
func ContainsOrBelow(list []string, actor string) bool {
	return slices.ContainsFunc(list, func(a string) bool { return IsOrBelow(a, actor) })
}
