// Package await waits in tests for what has to happen, however long a busy machine takes. It
// gives up after [Limit], and then shows what every goroutine does.
package await

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// Limit is long, as only what hangs takes it.
const Limit = 2 * time.Minute

// True returns when ok does.
func True(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(Limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s\n%s", Limit, what, goroutines())
		}
	}
}

// Receive returns what comes out of a channel, or the zero value if it is closed.
func Receive[T any](t testing.TB, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(Limit):
		t.Fatalf("not after %v: %s\n%s", Limit, what, goroutines())
	}
	return v
}

// Blocked returns when so many goroutines wait inside a function, such as
// "(*Barrier).Wait": what they wait for has not happened.
func Blocked(t testing.TB, n int, function string) {
	t.Helper()
	True(t, "waiting in "+function, func() bool { return Waiting("", function) >= n })
}

// Waiting is how many goroutines wait inside a function, in a state such as "chan receive" if
// that is not empty.
func Waiting(state, function string) (n int) {
	for _, g := range strings.Split(goroutines(), "\n\n") {
		now, stack, _ := strings.Cut(g, "\n")
		if strings.Contains(stack, function+"(") && strings.Contains(now, state) && !strings.Contains(now, "running") && !strings.Contains(now, "runnable") {
			n++
		}
	}
	return n
}

func goroutines() string {
	buf := make([]byte, 4<<20)
	return string(buf[:runtime.Stack(buf, true)])
}
