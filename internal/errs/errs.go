// Package errs defines the kinds of errors that callers of all packages distinguish. The kind of an error
// determines its errno, its exit status, its HTTP status and its name for scripts (table.go).
//
// An error gets its kind and a sentence where it occurs. Callers wrap it with %w and a description of
// their operation. They test it with errors.Is(err, errs.Exist), or with KindOf if they handle many kinds.
// A package has its own sentinel only if its callers distinguish errors of the same kind, such as "no
// such fork" and "no such file".
package errs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// A Kind is a kind of errors. It is itself an error, whose text is used if there is no better sentence.
type Kind string

func (k Kind) Error() string { return string(k) }

// Kinds of errors about names and arguments.
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

// Kinds of errors about rights and the state of an object.
const (
	Perm      Kind = "operation not permitted"
	Protected Kind = "protected by policy"
	ReadOnly  Kind = "read-only"
	Busy      Kind = "busy"
	Stale     Kind = "stale file handle"
	Closed    Kind = "closed"
	// Conflict means that both sides changed the same path, and that the operation changed nothing.
	Conflict Kind = "changed on both sides"
)

// Kinds of errors about the disk and stored data.
const (
	// NoSpace means that the disk is full. No acknowledged write is lost.
	NoSpace Kind = "no space left on the store's disk"
	// Quota means that a limit of the policy is reached.
	Quota Kind = "limit reached"
	// Damaged means that data on the disk differs from the data that was written.
	Damaged Kind = "stored data is damaged"
	// Format means that another version of the program wrote the data, which was left unchanged.
	Format Kind = "unknown format"
	// Unreachable means that a remote does not answer. It may answer later.
	Unreachable Kind = "the remote does not answer"
	// Failed means that an earlier write or sync failed. Reading is still possible.
	Failed Kind = "stopped after an I/O error"
)

// New returns an error of kind k with the formatted sentence as its text. It wraps the errors for %w.
func New(k Kind, format string, args ...any) error {
	return &kindError{kind: k, err: fmt.Errorf(format, args...)}
}

type kindError struct {
	kind Kind
	err  error
}

func (e *kindError) Error() string { return e.err.Error() }

// Unwrap returns the kind first, so that KindOf finds it before the kind of a wrapped error.
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// KindOf returns the outermost kind in the chain of err, "" if it has none.
func KindOf(err error) Kind {
	k, _ := errors.AsType[Kind](err)
	return k
}

// WrapNoSpace returns an error of a full disk, or of a reached quota of the disk, with the kind NoSpace. Other
// errors are returned as they are.
func WrapNoSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", NoSpace, err)
	}
	return err
}

// shortageErrnos are the errnos for which IsShortage reports true.
var shortageErrnos = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EADDRINUSE, syscall.EBUSY,
}

// IsShortage reports whether an operation failed because something was in use that may be released
// later: space, descriptors, memory, an address or a lock. Then it may succeed when it is repeated.
func IsShortage(err error) bool {
	return errors.Is(err, NoSpace) || errors.Is(err, Busy) ||
		slices.ContainsFunc(shortageErrnos, func(e syscall.Errno) bool { return errors.Is(err, e) })
}

// ShortageErrno returns the errno of a shortage in the chain of err, or 0. It also searches the text of err,
// because some libraries do not wrap errors.
func ShortageErrno(err error) syscall.Errno {
	for _, e := range shortageErrnos {
		if errors.Is(err, e) || strings.Contains(err.Error(), e.Error()) {
			return e
		}
	}
	return 0
}

// Ignore returns err, or nil if err is the expected error.
func Ignore(err, expected error) error {
	if errors.Is(err, expected) {
		return nil
	}
	return err
}
