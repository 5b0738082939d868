package errs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Error is the error that a command or a call ends with, with the JSON form of answers: one
// sentence for the person, a hint what to do next, and the kind. It crosses a socket, a control
// file or a pipe in this form, so that the command line prints in one process exactly what the
// daemon found out in another.
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

// As finds the kind, for [Of]; that of the cause says more.
func (e *Error) As(target any) bool {
	k, ok := target.(*Kind)
	if !ok || Of(e.Err) != "" || e.Kind == Failed {
		return false
	}
	*k = e.Kind
	return true
}

// Fail makes an Error of kind k. A %w in the format is kept as the cause.
func Fail(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// ErrorOf returns an error that is not nil in the form that users and clients see.
func ErrorOf(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return Fail(ScriptKind(err), "%w", err)
}

// ScriptKind finds which of the kinds with a name of their own any error is: the kind of an
// Error in its chain, or what its kind or its errno says, or Failed. The kind of nil is "".
func ScriptKind(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if k := Named(Of(err).Name()); k != Failed {
		return k
	}
	var errno syscall.Errno
	_ = errors.As(err, &errno)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotExist
	case errors.Is(err, fs.ErrExist):
		return Exist
	case errno == syscall.EBUSY || errno == syscall.ETXTBSY:
		return Busy
	case errno == syscall.ENOSPC || errno == syscall.EDQUOT:
		return NoSpace
	case errors.Is(err, fs.ErrPermission):
		return Perm
	}
	return Failed
}
