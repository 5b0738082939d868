// Package guard turns panics into errors, so that a panic does not end the process, and with it the
// file system of all users.
//
// The goroutines that answer requests catch their panics. Goroutines that work for a request, or in
// the background, call their work through [Do], or defer [Catch]. Then a panic is an error of that work
// alone, which is logged with [Stack]. Goroutines that only copy bytes or wait do not use Do. Code that is
// called through Do unlocks with defer, unless the code under the lock cannot panic.
package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A Panic is the error of a function that panicked.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return fmt.Sprintf("internal error: panic: %v", p.Value) }

// Do calls fn. If fn panics, the error is a *Panic.
func Do(fn func() error) (err error) {
	defer Catch(&err)
	return fn()
}

// Catch recovers from a panic, and sets *err to a *Panic. The caller defers it.
func Catch(err *error) {
	if v := recover(); v != nil {
		*err = &Panic{v, string(debug.Stack())}
	}
}

// Call calls a function that returns no error. It recovers from a panic as Do does, and logs it with the
// message.
func Call(log *slog.Logger, message string, fn func()) {
	if err := Do(func() error { fn(); return nil }); err != nil {
		log.Error(message, "err", err, Stack(err))
	}
}

// Stack returns the stack of the panic in err for a log line. The attribute is empty if err does not come from
// a panic.
func Stack(err error) slog.Attr {
	if p, ok := errors.AsType[*Panic](err); ok {
		return slog.String("stack", p.Stack)
	}
	return slog.Attr{}
}
