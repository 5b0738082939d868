// Package guard keeps a panic from ending the process, and the file system of all with it.
//
// The goroutines that answer requests catch their panics. Those that work for a request, or
// in the background, run what they do through [Do], so that the panic is an error of that
// work alone, which is logged with [Stack]. Goroutines that only copy bytes or wait do
// without. Code below a Do releases locks with defer, unless nothing under them can panic.
package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// A Panic is the error that a panic became.
type Panic struct {
	Value any
	Stack string
}

func (p *Panic) Error() string { return fmt.Sprintf("internal error: panic: %v", p.Value) }

// Do calls fn. If it panics, the error is a *Panic.
func Do(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &Panic{v, string(debug.Stack())}
		}
	}()
	return fn()
}

// Call is Do for a function without an error. It logs a panic.
func Call(log *slog.Logger, what string, fn func()) {
	if err := Do(func() error { fn(); return nil }); err != nil {
		log.Error(what, "err", err, Stack(err))
	}
}

// Stack is where the panic in err happened, for a log line; nothing if there is none.
func Stack(err error) slog.Attr {
	var p *Panic
	if !errors.As(err, &p) {
		return slog.Attr{}
	}
	return slog.String("stack", p.Stack)
}
