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
	"net/http"
	"syscall"

	"github.com/amberfs/amberfs/internal/errs"
)

// Kind is the kind of an error for scripts, as in answers and in JSON output.
type Kind string

const (
	Failed   Kind = "failed"
	Usage    Kind = "usage"
	NotFound Kind = "not-found"
	Exists   Kind = "exists"
	Busy     Kind = "busy"
	NoSpace  Kind = "no-space"
	Damage   Kind = "damage"
	Denied   Kind = "denied"
	Conflict Kind = "conflict"
)

// meanings is each kind as an exit status, as an HTTP status, and as the kind that decides the
// errno of a control file.
var meanings = map[Kind]struct {
	exit int
	http int
	err  errs.Kind
}{
	"":       {0, http.StatusOK, ""},
	Failed:   {1, http.StatusInternalServerError, ""},
	Usage:    {2, http.StatusBadRequest, errs.Invalid},
	NotFound: {3, http.StatusNotFound, errs.NotExist},
	Exists:   {4, http.StatusConflict, errs.Exist},
	Busy:     {5, http.StatusLocked, errs.Busy},
	NoSpace:  {6, http.StatusInsufficientStorage, errs.NoSpace},
	Damage:   {7, http.StatusInternalServerError, errs.Damaged},
	Conflict: {8, http.StatusConflict, errs.Busy},
	Denied:   {9, http.StatusForbidden, errs.Perm},
}

// Exit is the exit status of a command that failed so, 0 for "".
func (k Kind) Exit() int { return meanings[k].exit }

func (k Kind) HTTP() int { return meanings[k].http }

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

// As finds the kind that decides the errno, unless the cause has a kind.
func (e *Error) As(target any) bool {
	k, ok := target.(*errs.Kind)
	if !ok || errs.Of(e.Err) != "" || meanings[e.Kind].err == "" {
		return false
	}
	*k = meanings[e.Kind].err
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

// kinds are the kinds for users of errors of other packages; else Failed.
var kinds = map[errs.Kind]Kind{
	errs.NotExist:    NotFound,
	errs.Exist:       Exists,
	errs.Invalid:     Usage,
	errs.NameTooLong: Usage,
	errs.Busy:        Busy,
	errs.Perm:        Denied,
	errs.Protected:   Denied,
	errs.NoSpace:     NoSpace,
	errs.Quota:       NoSpace,
	errs.Damaged:     Damage,
}

// KindOf finds the kind of any error: that of an Error in its chain, or what
// its errs.Kind or its errno says, or Failed. The kind of nil is "".
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	if k, ok := kinds[errs.Of(err)]; ok {
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
