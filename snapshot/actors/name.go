package actors

import (
	"regexp"
	"slices"
	"strings"

	"github.com/amberfs/amberfs/internal/errs"
)

// Unknown is the actor of a change of which nothing is known.
const Unknown = "unknown"

// maxName is the longest name of an actor, in bytes.
const maxName = 128

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:/-]*$`)

// Check refuses names that no actor can have.
func Check(name string) error {
	switch {
	case len(name) > maxName:
		return errs.New(errs.NameTooLong, "name too long: the actor has %d bytes, at most %d are possible", len(name), maxName)
	case !nameForm.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, "//") || strings.HasSuffix(name, "/"):
		return errs.New(errs.Invalid, "refused name: actor %q; use letters, digits, '_', '.', '-', ':' and '/', and begin with a letter, digit or '_'", name)
	}
	return nil
}

// Below reports whether an actor is by, or has a name below it: a/b is below a.
func Below(actor, by string) bool {
	return actor == by || strings.HasPrefix(actor, by) && actor[len(by)] == '/'
}

// Among reports whether an actor, or one with a name below it, is among some.
func Among(list []string, actor string) bool {
	return slices.ContainsFunc(list, func(a string) bool { return Below(a, actor) })
}
