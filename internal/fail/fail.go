// Package fail is the error that a command ends with: one sentence for the
// person, what to do next, and the kind, which decides exit status, errno and
// HTTP status.
//
// An error crosses a socket, a control file or a pipe as its kind, sentence and
// hint, so that the command line prints in one process exactly what the daemon
// found out in another.
package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
)

type Kind = errs.Kind

// The kinds that scripts tell apart.
const (
	Failed   = errs.Failed
	Usage    = errs.Invalid
	NotFound = errs.NotExist
	Exists   = errs.Exist
	Busy     = errs.Busy
	NoSpace  = errs.NoSpace
	Damage   = errs.Damaged
	Denied   = errs.Perm
	Conflict = errs.Conflict
)

// Error is an error for users and clients, with the JSON form of answers.
type Error struct {
	// Msg is one sentence, without a capital or a full stop.
	Msg  string `json:"error"`
	Kind Kind   `json:"kind"`
	// Hint says what to do next; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Result is what there is to show all the same: conflicts, damage.
	Result any `json:"result,omitempty"`
	// Err is the cause, for errors.Is; its text is not printed.
	Err error `json:"-"`
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

func (e *Error) Unwrap() error { return e.Err }

// As finds the kind, for [errs.Of]; that of the cause says more.
func (e *Error) As(target any) bool {
	k, ok := target.(*Kind)
	if !ok || errs.Of(e.Err) != "" || e.Kind == Failed {
		return false
	}
	*k = e.Kind
	return true
}

// New makes an error of kind k. A %w in the format is kept as the cause.
func New(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Of returns an error that is not nil in the form that users and clients see.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return New(KindOf(err), "%w", err)
}

// KindOf finds which of the kinds above any error is: that of an Error in its chain, or
// what its kind or its errno says, or Failed. The kind of nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if k := errs.Named(errs.Of(err).Name()); k != Failed {
		return k
	}
	var errno syscall.Errno
	_ = errors.As(err, &errno)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist):
		return Exists
	case errno == syscall.EBUSY || errno == syscall.ETXTBSY:
		return Busy
	case errno == syscall.ENOSPC || errno == syscall.EDQUOT:
		return NoSpace
	case errors.Is(err, fs.ErrPermission):
		return Denied
	}
	return Failed
}
