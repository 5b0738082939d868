package errs

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// An Error is the error of a command or a request as users see it: one sentence, a hint what to do next, and the
// kind. It is sent in its JSON form over a socket, a control file or a pipe. So the command line can print the error
// of the daemon unchanged.
type Error struct {
	// Msg is one sentence, without a capital or a full stop.
	Msg  string `json:"error"`
	Kind Kind   `json:"kind"`
	// Hint says what to do next; it may be empty.
	Hint string `json:"hint,omitempty"`
	// Result is a result that comes with the error, such as conflicts or damage. May be nil.
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

// As lets [KindOf] find the kind of e. If the cause of e has a kind, KindOf finds that kind, because it is more
// exact.
func (e *Error) As(target any) bool {
	k, ok := target.(*Kind)
	if !ok || KindOf(e.Err) != "" || e.Kind == Failed {
		return false
	}
	*k = e.Kind
	return true
}

// Fail returns an Error of kind k with the formatted message. An error for %w becomes the cause.
func Fail(k Kind, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// WithHint sets the hint of e, and returns e.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithResult sets the result of e, and returns e.
func (e *Error) WithResult(result any) *Error {
	e.Result = result
	return e
}

// WithCause sets the cause of e, and returns e.
func (e *Error) WithCause(err error) *Error {
	e.Err = err
	return e
}

// ErrorOf returns the Error in the chain of err, or err as an Error of its ScriptKind. err is not nil.
func ErrorOf(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return Fail(ScriptKind(err), "%w", err)
}

// ScriptKind returns the kind of err for scripts, which know fewer kinds: see KindNamed. It uses the first of
// these in the chain of err: an Error, a Kind with a name of its own, an errno. Without one it returns
// Failed. For nil it returns "".
func ScriptKind(err error) Kind {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if k := KindNamed(KindOf(err).Name()); k != Failed {
		return k
	}

	errno, _ := errors.AsType[syscall.Errno](err)

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
