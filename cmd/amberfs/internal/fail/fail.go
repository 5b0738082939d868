package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// Kind says what went wrong in the terms that scripts tell apart. Its text is
// what travels over the control socket and stands in JSON output.
type Kind string

// The kinds, one for every exit status but success.
const (
	Failed   Kind = "failed"
	Usage    Kind = "usage"
	NotFound Kind = "not-found"
	Exists   Kind = "exists"
	Busy     Kind = "busy"
	NoSpace  Kind = "no-space"
	Damage   Kind = "damage"
)

// Error is a failure as the user is told about it.
type Error struct {
	Kind Kind
	// Msg is one sentence, without a capital or a full stop.
	Msg string
	// Hint says what to do next; it may be empty.
	Hint string
	// Err is the cause, for errors.Is; its text is not printed.
	Err error
	// Silent means that the output already said everything: only the exit
	// status is left to give.
	Silent bool
}

// Error gives the sentence, and the hint after a semicolon.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + "; " + e.Hint
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// New makes an error of kind k. A %w in the format is kept as the cause.
func New(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint returns e with what to do next.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Quiet makes an error that sets the exit status and prints nothing.
func Quiet(k Kind) *Error { return &Error{Kind: k, Msg: string(k), Silent: true} }

// KindOf finds the kind of any error: that of an Error in its chain, or what
// its errno says, or Failed. The kind of nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return NotFound
	case errors.Is(err, fs.ErrExist):
		return Exists
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.EBUSY, syscall.ETXTBSY:
			return Busy
		case syscall.ENOSPC, syscall.EDQUOT:
			return NoSpace
		}
	}
	return Failed
}
