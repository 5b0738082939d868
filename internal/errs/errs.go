// Package errs has the kinds of errors that callers tell apart, once for all
// layers. An errno, an exit status, an HTTP status and the name for scripts each depend on
// the kind alone (table.go).
//
// An error gets its kind where it is found, together with a sentence. Callers add what was
// being done, with %w, and ask errors.Is(err, errs.Exist), or Of where they handle many
// kinds. A package has a sentinel of its own only where its callers tell apart what is the
// same kind, such as "no such fork" and "no such file".
package errs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// A Kind says what went wrong. Its text serves where no sentence says more.
type Kind string

func (k Kind) Error() string { return string(k) }

// Of names and arguments.
const (
	NotExist     Kind = "no such file or directory"
	Exist        Kind = "file exists"
	NotDir       Kind = "not a directory"
	IsDir        Kind = "is a directory"
	NotEmpty     Kind = "directory not empty"
	NameTooLong  Kind = "file name too long"
	Invalid      Kind = "invalid argument"
	NotSupported Kind = "operation not supported"
	CrossDevice  Kind = "invalid cross-device link"
	TooManyLinks Kind = "too many links"
	TooBig       Kind = "file too large"
	Range        Kind = "value too large"
	NoData       Kind = "no data at or after this offset"
	NoAttr       Kind = "no such attribute"
)

// Of what the caller may do, and when.
const (
	Perm      Kind = "operation not permitted"
	Protected Kind = "protected by policy"
	ReadOnly  Kind = "read-only"
	Busy      Kind = "busy"
	Stale     Kind = "stale file handle"
	Closed    Kind = "closed"
	// Conflict: both sides changed the same. Nothing was changed.
	Conflict Kind = "changed on both sides"
)

// Of the disk and of what is on it.
const (
	// NoSpace: the disk is full. Nothing acknowledged is lost.
	NoSpace Kind = "no space left on the store's disk"
	// Quota: a limit of the policy is reached.
	Quota Kind = "limit reached"
	// Damaged: what is on the disk is not what was written.
	Damaged Kind = "stored data is damaged"
	// Format: written by another version of the program. Nothing was touched.
	Format Kind = "unknown format"
	// Away: a remote does not answer. Nothing is lost; it may be back later.
	Away Kind = "the remote does not answer"
	// Failed: an earlier write or sync failed; only reading goes on.
	Failed Kind = "stopped after an I/O error"
)

// New returns an error of kind k with a sentence as its text. It wraps a %w.
func New(k Kind, format string, args ...any) error {
	return &sentence{kind: k, text: fmt.Errorf(format, args...)}
}

type sentence struct {
	kind Kind
	text error
}

func (s *sentence) Error() string { return s.text.Error() }

// Unwrap names the kind first, so that Of finds it before that of the cause.
func (s *sentence) Unwrap() []error { return []error{s.kind, s.text} }

// Of finds the outermost kind in the chain of err, "" if it has none.
func Of(err error) Kind {
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return ""
}

// Full gives the error of a full disk, or of a quota of it, the kind NoSpace.
func Full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", NoSpace, err)
	}
	return err
}

// shortages are errors for want of something that others may give back.
var shortages = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EADDRINUSE, syscall.EBUSY,
}

// Shortage reports whether an error is for want of something that others may give back: space,
// descriptors, memory, an address or a lock. The same may succeed later.
func Shortage(err error) bool {
	return errors.Is(err, NoSpace) || errors.Is(err, Busy) ||
		slices.ContainsFunc(shortages, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// ShortageIn finds one of the errnos of a shortage in an error whose text alone has it, as that of a
// library; 0 if it has none.
func ShortageIn(err error) syscall.Errno {
	for _, e := range shortages {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return e
		}
	}
	return 0
}

// Except returns an error, nil for one that is expected.
func Except(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
